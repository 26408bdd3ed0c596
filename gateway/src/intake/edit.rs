//! Changes to a request body: the bytes of some values, and no other.
//!
//! Numbers, blanks, escapes and key order stay as they were sent; a body that needs no change is
//! passed on as it is, not copied.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::facts::{Facts, Model};

/// One change: these bytes of the body give way to those. An empty range puts text in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Bytes of the body.
    pub place: Range<usize>,
    /// What stands there afterwards.
    pub text: String,
}

impl Edit {
    /// The model's value becomes `name`; none if it is that already.
    #[must_use]
    pub fn model(model: &Model, name: &str) -> Option<Self> {
        (model.name != name).then(|| Self {
            place: model.value.clone(),
            text: serde_json::Value::from(name).to_string(),
        })
    }
}

/// What makes a streaming request ask for usage, and whether its client did not. `None` where the
/// client asked itself, or the member is no object and the engine's to refuse.
#[must_use]
pub fn ask_for_usage(body: &[u8], facts: &Facts) -> Option<Edit> {
    let put_in = |at: usize, text: &str, empty: bool| Edit {
        place: at..at,
        text: format!("{text}{}", if empty { "" } else { "," }),
    };
    let Some(options) = &facts.stream_options else {
        let text = r#""stream_options":{"include_usage":true}"#;
        return Some(put_in(facts.first_member, text, facts.empty));
    };
    if options.include_usage == Some(true) {
        return None;
    }
    if let Some(place) = options.include_usage_value.clone() {
        return Some(Edit {
            place,
            text: "true".to_owned(),
        });
    }
    match &body[options.value.clone()] {
        b"null" => Some(Edit {
            place: options.value.clone(),
            text: r#"{"include_usage":true}"#.to_owned(),
        }),
        [b'{', rest @ ..] => {
            let empty = rest.trim_ascii_start().starts_with(b"}");
            let at = options.value.start + 1;
            Some(put_in(at, r#""include_usage":true"#, empty))
        }
        _ => None,
    }
}

/// `body` after all `edits`, which lie in it without overlap, in any order.
#[must_use]
pub fn apply(body: &Bytes, mut edits: Vec<Edit>) -> Bytes {
    if edits.is_empty() {
        return body.clone();
    }
    edits.sort_by_key(|edit| edit.place.start);
    let grown: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut whole = BytesMut::with_capacity(body.len() + grown);
    let mut at = 0;
    for edit in edits {
        whole.extend_from_slice(&body[at..edit.place.start]);
        whole.extend_from_slice(edit.text.as_bytes());
        at = edit.place.end;
    }
    whole.extend_from_slice(&body[at..]);
    whole.freeze()
}

#[cfg(test)]
mod tests {
    use super::super::facts;
    use super::*;

    fn with_model(body: &Bytes, name: &str) -> Bytes {
        let model = facts::read(body).unwrap().model.unwrap();
        apply(body, Edit::model(&model, name).into_iter().collect())
    }

    #[test]
    fn r04_a_rewrite_changes_the_model_value_alone() {
        let body = Bytes::from_static(
            br#"{"model":"m","seed":12345678901234567890,"n_big":9007199254740995,"temperature":1.0,"top_p":0.10000000000000001,"eps":1e-7,"neg":-0.0,"e":1E5,"messages":[]}"#,
        );
        let expected =
            String::from_utf8(body.to_vec())
                .unwrap()
                .replacen(r#""m""#, r#""served/\"name\"""#, 1);
        assert_eq!(with_model(&body, "served/\"name\""), expected.as_bytes());
    }

    #[test]
    fn the_same_name_keeps_the_very_bytes() {
        let body = Bytes::from_static(br#"{"model":"\u006d"}"#);
        assert_eq!(with_model(&body, "m").as_ptr(), body.as_ptr());
    }

    #[test]
    fn r01_usage_is_asked_for_in_the_fewest_bytes() {
        for (body, expected) in [
            (
                r#"{"a":1}"#,
                Some(r#"{"stream_options":{"include_usage":true},"a":1}"#),
            ),
            (
                r#" { } "#,
                Some(r#" {"stream_options":{"include_usage":true} } "#),
            ),
            (
                r#"{"stream_options": null}"#,
                Some(r#"{"stream_options": {"include_usage":true}}"#),
            ),
            (
                r#"{"stream_options": { "x":1 }}"#,
                Some(r#"{"stream_options": {"include_usage":true, "x":1 }}"#),
            ),
            (
                r#"{"stream_options":{}}"#,
                Some(r#"{"stream_options":{"include_usage":true}}"#),
            ),
            (
                r#"{"stream_options":{"include_usage" : false}}"#,
                Some(r#"{"stream_options":{"include_usage" : true}}"#),
            ),
            (r#"{"stream_options":{"include_usage":true}}"#, None),
            (r#"{"stream_options":7}"#, None),
        ] {
            let bytes = Bytes::from_static(body.as_bytes());
            let edit = ask_for_usage(&bytes, &facts::read(&bytes).unwrap());
            let asked = edit.map(|edit| apply(&bytes, vec![edit]));
            assert_eq!(asked.as_deref(), expected.map(str::as_bytes), "{body}");
        }
    }

    #[test]
    fn several_edits_keep_what_is_between_them() {
        let body = Bytes::from_static(b"{\"a\": 1, \"b\": 2}");
        let edit = |place, text: &str| Edit {
            place,
            text: text.to_owned(),
        };
        let edited = apply(
            &body,
            vec![edit(14..15, "20"), edit(1..1, "\"c\":0,"), edit(6..7, "")],
        );
        assert_eq!(edited, &b"{\"c\":0,\"a\": , \"b\": 20}"[..]);
    }
}
