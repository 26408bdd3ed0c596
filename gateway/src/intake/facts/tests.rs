use super::*;

#[test]
fn r03_unknown_fields_are_stepped_over() {
    let body = br#"{"chat_template_kwargs":{"model":"inner"},"x":[1,{"model":2}], "model" : "m" ,"stream":true}"#;
    let facts = read(body).unwrap();
    let model = facts.model.unwrap();
    assert_eq!(model.name, "m");
    assert_eq!(&body[model.value], b"\"m\"");
    assert!(facts.stream);
}

#[test]
fn an_escaped_key_is_the_same_key() {
    let facts = read(br#"{"mod\u0065l":"m"}"#).unwrap();
    assert_eq!(facts.model.unwrap().name, "m");
}

#[test]
fn doubt_is_told_apart_from_silence() {
    let silent = |empty| Facts {
        first_member: 1,
        empty,
        ..Facts::default()
    };
    assert_eq!(read(b"{}"), Ok(silent(true)));
    assert_eq!(read(br#"{"model":null}"#), Ok(silent(false)));
    for name in ["model", "stream", "max_tokens", "n", "messages"] {
        let body = format!(r#"{{"{name}":1,"x":0,"{name}":2}}"#);
        assert_eq!(read(body.as_bytes()), Err(Unread::Repeated(name)));
    }
    assert_eq!(read(br#"{"model":7}"#), Err(Unread::ModelNotText));
    for broken in [&b"[]"[..], b"", b"\"model\"", b"{\"model\":", b"\xff"] {
        assert_eq!(read(broken), Err(Unread::NotAnObject), "{broken:?}");
    }
}

#[test]
fn r22_odd_numbers_are_neither_unset_nor_overflow() {
    let number = |text: &str| {
        let body = format!(r#"{{"max_tokens": {text} }}"#);
        let facts = read(body.as_bytes()).unwrap();
        let limit = facts.output_limits.first().cloned()?;
        assert_eq!(&body[limit.value], text);
        Some(limit.number)
    };
    for (text, expected) in [
        ("0", Some(0)),
        ("1000000000", Some(1_000_000_000)),
        ("9223372036854775808", Some(1 << 63)),
        ("1e30", Some(u64::MAX)),
        ("1e3", Some(1_000)),
        ("7.0", Some(7)),
        ("-1", None),
        ("1.5", None),
        ("\"100\"", None),
        ("[]", None),
    ] {
        assert_eq!(number(text), Some(expected), "{text}");
    }
    assert_eq!(number("null"), None, "null is unset");
}

#[test]
fn the_largest_of_several_limits_counts() {
    let facts = read(br#"{"max_tokens":5,"max_completion_tokens":9,"n":0,"best_of":3}"#).unwrap();
    assert_eq!(
        facts.output_tokens(&["max_tokens", "max_completion_tokens"]),
        Some(9)
    );
    assert_eq!(facts.output_tokens(&["max_tokens"]), Some(5));
    assert_eq!(facts.output_tokens(&["max_output_tokens"]), None);
    assert_eq!(facts.choices(), 3);
    assert_eq!(read(b"{}").unwrap().choices(), 1);
    assert_eq!(read(b"{}").unwrap().output_tokens(&["max_tokens"]), None);
}

#[test]
fn stream_options_are_found_with_their_places() {
    let body = br#"{"stream_options": {"x":1, "include_usage": false}}"#;
    let options = read(body).unwrap().stream_options.unwrap();
    assert_eq!(options.include_usage, Some(false));
    assert_eq!(&body[options.include_usage_value.unwrap()], b"false");
    assert_eq!(&body[options.value], br#"{"x":1, "include_usage": false}"#);
    for odd in ["7", "\"x\"", "{\"include_usage\":1}"] {
        let body = format!(r#"{{"stream_options":{odd}}}"#);
        let options = read(body.as_bytes()).unwrap().stream_options.unwrap();
        assert_eq!(options.include_usage, None);
    }
}

#[test]
fn a_prompt_is_estimated_from_its_bytes() {
    let facts =
        read(br#"{"messages":[{"role":"user","content":"hello"}],"x":"not counted"}"#).unwrap();
    assert_eq!(
        facts.prompt_bytes,
        r#"[{"role":"user","content":"hello"}]"#.len() as u64
    );
    assert_eq!(facts.prompt_tokens(), 9);
}
