//! The checked-in JSON Schemas are those of the types.
//!
//! `UPDATE_SCHEMAS=1 cargo test -p inferscope-shared schemas` rewrites them.

use std::fs;
use std::path::{Path, PathBuf};

use inferscope_shared::record::gateway::{GatewayRecord, HeaderLine};
use inferscope_shared::record::request::RequestRecord;
use inferscope_shared::record::schema;
use serde_json::Value;

fn path_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schemas/{name}.schema.json"))
}

fn on_disk(name: &str) -> Value {
    let path = path_of(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn assert_current(name: &str, schema: &Value) {
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        let text = serde_json::to_string_pretty(schema).expect("a schema is JSON") + "\n";
        fs::write(path_of(name), text).expect("the schema can be written");
    }
    assert!(
        on_disk(name) == *schema,
        "{} is not that of the type: run the schema tests with UPDATE_SCHEMAS=1",
        path_of(name).display()
    );
}

#[test]
fn gateway_record_schema_is_current() {
    assert_current("gateway_record", &schema::of::<GatewayRecord>());
}

#[test]
fn gateway_header_schema_is_current() {
    assert_current("gateway_header", &schema::of::<HeaderLine>());
}

#[test]
fn request_record_schema_is_current() {
    assert_current("request_record", &schema::of::<RequestRecord>());
}

#[test]
fn schemas_require_fields_that_may_be_null() {
    for (name, required) in [
        ("gateway_record", "client_request_id"),
        ("gateway_header", "header"),
        ("request_record", "error_kind"),
    ] {
        let schema = on_disk(name);
        let fields = schema["required"].as_array().expect("it requires fields");
        assert!(
            fields.iter().any(|it| it == required),
            "{name} does not require {required}"
        );
    }
}
