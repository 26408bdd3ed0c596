//! Changes to a request body: the bytes of some values, and no other.
//!
//! Numbers, blanks, escapes and key order stay as they were sent; a body that needs no change is
//! passed on as it is, not copied.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::facts::Model;

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
