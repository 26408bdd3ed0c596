//! What a user sees of a configuration's faults, and what a good one gives.

use std::time::Duration;

use super::*;

const SMALLEST: &str = "version: 1
listen: [{addr: '127.0.0.1:0'}]
auth: {mode: none}
pools: {p: {endpoints: [{url: 'http://127.0.0.1:8000'}]}}
";

fn faults(text: &str) -> String {
    Config::parse("gw.yaml", text).unwrap_err().to_string()
}

#[test]
fn the_smallest_file_gets_the_defaults() {
    let config = Config::parse("gw.yaml", SMALLEST).unwrap();
    assert_eq!(config.max_body_bytes, 32 << 20);
    assert_eq!(config.timeouts, Timeouts::default());
    assert_eq!(config.records, RecordsConfig::default());
    assert_eq!(config.listen[0].half_close, HalfClose::Gone);
    assert!(matches!(config.auth, Auth::None));
    assert!(config.metrics.is_none() && config.admin.is_none());
}

#[test]
fn values_are_read_with_their_units() {
    let text = format!(
        "{SMALLEST}timeouts: {{connect: 250ms, total: 2h}}
max_request_body: 1GB
records: {{file: {{path: /tmp/r.jsonl, max_size: 2MiB, keep: 3}}, ring: {{max_records: 7, max_size: 1MiB}}, hash: true}}
logs: {{level: debug, format: json}}
"
    );
    let config = Config::parse("gw.yaml", &text).unwrap();
    assert_eq!(config.timeouts.connect, Duration::from_millis(250));
    assert_eq!(config.timeouts.total, Duration::from_secs(7_200));
    assert_eq!(config.max_body_bytes, 1_000_000_000);
    let file = config.records.file.unwrap();
    assert_eq!((file.max_bytes, file.keep), (2 << 20, 3));
    assert_eq!(config.records.ring.max_records, 7);
    assert!(config.records.hash);
    assert_eq!(
        (config.logs.level, config.logs.format),
        ("debug", LogFormat::Json)
    );
}

#[test]
fn every_fault_of_a_file_is_listed_with_its_place() {
    insta::assert_snapshot!(faults(
        "version: 2
listen:
  - addr: localhost:8080
    tls: {}
  - adr: 127.0.0.1:80
metrics: {addr: 127.0.0.1}
admin: {addr: 0.0.0.0:9091}
auth:
  mode: jwt
models:
  small: {pool: nowhere}
pools:
  a:
    endpoints:
      - url: https://engine:8000
      - url: http://user:hunter2@engine:8000
      - url: http://engine:8000/v1
    policy: random
timeouts: {connect: 5, total: 0ms}
timeouts: {}
max_request_body: 32mb
usage: inject
queue: {max_requests: 10}
records: {files: x}
"
    ));
}

#[test]
fn no_keys_means_no_start_unless_it_is_written_out() {
    let without = |auth: &str| faults(&SMALLEST.replace("auth: {mode: none}\n", auth));
    insta::assert_snapshot!(without(""), @r#"gw.yaml:1:1: "auth" is missing: give keys, or write `auth: {mode: none}` to let everyone in"#);
    insta::assert_snapshot!(without("auth: {mode: keys, keys: [], secret: 'file:/nonexistent/secret'}\n"), @r"
    gw.yaml:3:7: auth: no keys: make one with `inferscope-gateway keys new --tenant NAME`, or write `mode: none` to let everyone in
    gw.yaml:3:38: auth.secret: cannot read the secret file /nonexistent/secret: No such file or directory (os error 2); name a file that the gateway's user can read
    ");
}

#[test]
fn a_secret_in_the_wrong_place_is_not_repeated() {
    let text = SMALLEST.replace(
        "auth: {mode: none}",
        "auth: {secret: hunter2-hunter2, keys: [{id: a, tenant: t, hash: isk_hunter2}]}",
    );
    let shown = faults(&text);
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("env:NAME or file:/path"), "{shown}");
    assert!(shown.contains("64 hexadecimal digits"), "{shown}");
}

#[test]
fn several_pools_need_models_and_names_must_exist() {
    let two = SMALLEST.replace(
        "pools: {",
        "pools: {q: {endpoints: [{url: 'http://[::1]:9'}]}, ",
    );
    assert!(faults(&two).contains("several pools need a table of models"));
    let text = format!(
        "{two}models: {{m: {{pool: q}}}}\ntenants: {{t: {{models: [x], limits: {{burst: 2}}}}}}\n"
    );
    insta::assert_snapshot!(faults(&text), @r#"
    gw.yaml:6:24: tenants.t.models[0]: no model "x" under `models`: add it there
    gw.yaml:6:44: tenants.t.limits.burst: has no effect without `requests_per_s`: set that too, or remove it
    "#);
}

#[test]
fn one_port_is_for_one_thing() {
    let shared = format!("{SMALLEST}admin: {{addr: '127.0.0.1:8080'}}\n");
    let shared = faults(&shared.replace("127.0.0.1:0", "127.0.0.1:8080"));
    assert!(
        shared.contains("admin and listen would share port 8080"),
        "{shared}"
    );
    let wild = faults(&format!(
        "{SMALLEST}metrics: {{addr: '0.0.0.0:9999'}}\nadmin: {{addr: '127.0.0.1:9999'}}\n"
    ));
    assert!(
        wild.contains("admin and metrics would share port 9999"),
        "{wild}"
    );
}

#[test]
fn an_endpoint_is_host_port_and_a_plain_base_path() {
    let parse = |url: &str| Endpoint::parse(url).map(|e| (e.host, e.port, e.base_path));
    assert_eq!(
        parse("http://engine"),
        Ok(("engine".into(), 80, String::new()))
    );
    assert_eq!(
        parse("http://[::1]:8000/"),
        Ok(("::1".into(), 8000, String::new()))
    );
    assert_eq!(
        parse("http://e:1/base/x/"),
        Ok(("e".into(), 1, "/base/x".into()))
    );
    for bad in [
        "",
        "engine:8000",
        "ftp://engine",
        "http://",
        "http://:80",
        "http://e:0",
        "http://e:99999",
        "http://e:x",
        "http://e:",
        "http://e/a?b",
        "http://e/%2e",
        "http://e/a/../b",
        "http://e/v1/",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_missing_file_says_what_to_do() {
    let message = Config::load(Path::new("/nonexistent/gw.yaml"))
        .unwrap_err()
        .to_string();
    insta::assert_snapshot!(message, @"cannot read the configuration /nonexistent/gw.yaml: No such file or directory (os error 2); name an existing file with -c");
}

/// Every shipped file loads; a secret from the environment is stood in for by a file.
#[test]
fn the_shipped_configurations_load() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "0123456789abcdef0123456789abcdef").unwrap();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let mut loaded = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("gateway") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let file = format!("file:{}", secret.path().display());
        let text = text.replace("env:INFERSCOPE_KEY_SECRET", &file);
        if let Err(error) = Config::parse(&name, &text) {
            panic!("{error}");
        }
        loaded.push(name);
    }
    loaded.sort();
    assert_eq!(
        loaded,
        [
            "gateway.measure.yaml",
            "gateway.minimal.yaml",
            "gateway.yaml"
        ]
    );
}

#[test]
fn an_empty_section_is_told_beside_other_faults() {
    let empty = "version: 2
listen: []
auth: {keys: [], secret: oops}
pools: {p: {endpoints: []}}
";
    insta::assert_snapshot!(faults(empty), @r"
    gw.yaml:1:10: version: expected 1, the only version of this format
    gw.yaml:2:9: listen: give at least one `- addr: IP:PORT`
    gw.yaml:3:7: auth: no keys: make one with `inferscope-gateway keys new --tenant NAME`, or write `mode: none` to let everyone in
    gw.yaml:3:26: auth.secret: a secret is never written here: give env:NAME or file:/path
    gw.yaml:4:24: pools.p.endpoints: a pool needs an endpoint: add `- url: http://HOST:PORT`
    ");
}

#[test]
fn a_section_of_another_kind_is_one_fault_and_absent_ones_have_examples() {
    let other =
        "version: 1\nlisten: 5\nauth: {keys: 5, secret: 'env:CARGO_MANIFEST_DIR'}\npools: {}\n";
    insta::assert_snapshot!(faults(other), @r#"
    gw.yaml:2:9: listen: expected a list, found "5"
    gw.yaml:3:14: auth.keys: expected a list, found "5"
    gw.yaml:4:8: pools: give at least one pool: `NAME: {endpoints: [...]}`
    "#);
    insta::assert_snapshot!(faults("{}"), @r#"
    gw.yaml:1:1: "version" is missing: add it, such as `version: 1`
    gw.yaml:1:1: "listen" is missing: add it, such as `listen: [{addr: 127.0.0.1:8080}]`
    gw.yaml:1:1: "pools" is missing: add it, such as `pools: {main: {endpoints: [{url: http://127.0.0.1:8000}]}}`
    gw.yaml:1:1: "auth" is missing: give keys, or write `auth: {mode: none}` to let everyone in
    "#);
}
