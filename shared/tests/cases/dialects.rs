//! The dialect cases (D…): what events mean, whoever wrote them.

use inferscope_shared::openai::{
    self, ApiError, Chunk, OutputKind, StreamState, Unreadable, Usage,
};
use inferscope_shared::record::request::EventKind;
use inferscope_shared::sse::Event;

use crate::support::{DONE, ROLE, chunk, chunk_of, event, fin, fin_of, read, usage};

fn error_of<'a>(chunk: &'a Chunk<'a>) -> &'a ApiError<'a> {
    match chunk {
        Chunk::Error(error) => error,
        other => panic!("not an error: {other:?}"),
    }
}

#[test]
fn d01_the_role_event_is_not_the_first_token() {
    let read = read([[ROLE, &chunk("a"), &fin("stop"), &usage(3, 1), DONE].concat()]);
    let kinds: Vec<_> = read.seen.iter().map(|it| it.kind).collect();
    use EventKind::{Done, Empty, Finish, Output, Usage};
    assert_eq!(kinds, [Empty, Output, Finish, Usage, Done]);
    assert_eq!(read.first_output(), Some(1));
}

#[test]
fn d03_reasoning_under_either_name_and_never_twice() {
    for keys in [
        r#""reasoning":"think""#,
        r#""reasoning_content":"think""#,
        r#""reasoning":"think","reasoning_content":"think""#,
        r#""reasoning":"think","reasoning_content":null"#,
        r#""reasoning":"","reasoning_content":"think""#,
    ] {
        let thought = event(&format!(
            r#"{{"choices":[{{"index":0,"delta":{{{keys}}}}}]}}"#
        ));
        let read = read([[ROLE, &thought, &chunk("a"), &fin("stop"), DONE].concat()]);
        assert_eq!(read.first_output(), Some(1), "{keys}");
        assert_eq!(read.output(0, OutputKind::Reasoning), "think", "{keys}");
        assert_eq!(read.text(), "a");
    }
}

#[test]
fn d05_answers_of_tool_calls_alone() {
    let call = |function: &str| {
        event(&format!(
            r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":0,{function}}}]}}}}]}}"#
        ))
    };
    let read = read([[
        ROLE,
        &call(r#""id":"c1","type":"function","function":{"name":"find","arguments":""}"#),
        &call(r#""function":{"arguments":"{\"q\":"}"#),
        &call(r#""function":{"arguments":"1}"}"#),
        &fin("tool_calls"),
        &usage(10, 31),
        DONE,
    ]
    .concat()]);
    assert_eq!(
        read.first_output(),
        Some(1),
        "a name without arguments is output"
    );
    assert_eq!(read.state.output_events(), 3);
    assert_eq!(read.output(0, OutputKind::ToolCall(0)), "find{\"q\":1}");
    assert_eq!(read.tokens(), (Some(10), Some(31)));
    assert_eq!(read.state.finish_reason(), Some("tool_calls"));
}

#[test]
fn d05_tool_calls_are_told_apart_by_index() {
    let body = event(
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[
            {"index":1,"function":{"name":"b"}},{"index":0,"function":{"name":"a"}}]}}]}"#,
    );
    let read = read([body]);
    assert_eq!(read.output(0, OutputKind::ToolCall(0)), "a");
    assert_eq!(read.output(0, OutputKind::ToolCall(1)), "b");
}

#[test]
fn d07_usage_with_no_choices() {
    for choices in [r#""choices":[],"#, "", r#""choices":null,"#] {
        let json = format!(
            r#"{{"id":"c1",{choices}"usage":{{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}}}"#
        );
        let read = read([[&chunk("a"), &fin("stop"), &event(&json), DONE].concat()]);
        assert_eq!(read.seen[2].kind, EventKind::Usage, "{choices}");
        assert_eq!(read.tokens(), (Some(3), Some(2)));
    }
}

#[test]
fn d08_annotations_are_no_tokens_and_no_end() {
    let named = event(r#"{"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}"#);
    let read = read([[
        &event(
            r#"{"id":"","choices":[],"created":0,"model":"","object":"","prompt_filter_results":[]}"#,
        ),
        &named,
        &event(
            r#"{"model":"","choices":[{"index":0,"finish_reason":null,
               "content_filter_offsets":{"start_offset":0,"end_offset":9}}]}"#
        ),
        &event(r#"{"choices":[{"index":0,"delta":null}]}"#),
        &chunk("b"),
        &fin("stop"),
        DONE,
    ]
    .concat()]);
    assert_eq!(read.first_output(), Some(1));
    assert_eq!(read.state.output_events(), 2);
    assert_eq!(read.state.model(), Some("m"));
    assert_eq!(read.text(), "ab");
    assert!(read.state.finished() && read.state.unreadable_events() == 0);
}

#[test]
fn d09_running_totals_are_not_added() {
    let mut body = ROLE.to_owned();
    for n in (1..=40).chain([40]) {
        body.push_str(&event(&format!(
            r#"{{"choices":[{{"index":0,"delta":{{"content":"x"}}}}],
               "usage":{{"prompt_tokens":7,"completion_tokens":{n}}}}}"#
        )));
    }
    body.push_str(&usage(7, 40));
    let read = read([body]);
    assert_eq!(read.tokens(), (Some(7), Some(40)));
    let per_event: Vec<_> = read.seen.iter().map(|it| it.tokens).collect();
    assert_eq!(per_event[0], None, "the role event says nothing");
    assert!(per_event[1..=40].iter().all(|&it| it == Some(1)));
    assert_eq!(
        per_event[41],
        Some(0),
        "the repeated total holds no new token"
    );
}

#[test]
fn d09_running_totals_on_their_own_are_not_added_either() {
    let mut body = String::new();
    for n in 1..=5 {
        body.push_str(&chunk("x"));
        body.push_str(&usage(7, n));
    }
    assert_eq!(
        read([[&body, fin("stop").as_str(), DONE].concat()]).tokens(),
        (Some(7), Some(5))
    );
}

#[test]
fn d11_choices_interleave_and_finish_apart() {
    let both = event(
        r#"{"choices":[{"index":1,"delta":{"content":"B2"}},{"index":0,"delta":{"content":"A2"}}]}"#,
    );
    let parts = [
        chunk_of(1, "B1"),
        chunk_of(0, "A1"),
        both,
        fin_of(1, "stop"),
        chunk_of(0, "A3"),
        fin_of(0, "length"),
        usage(5, 7),
        DONE.to_owned(),
    ];
    let cut = read([parts[..4].concat()]);
    assert!(!cut.state.finished(), "choice 0 still runs");
    let whole = read([parts.concat()]);
    assert!(whole.state.finished() && whole.state.done());
    assert_eq!(whole.first_output(), Some(0));
    assert_eq!(whole.output(0, OutputKind::Text), "A1A2A3");
    assert_eq!(whole.output(1, OutputKind::Text), "B1B2");
    assert_eq!(whole.tokens(), (Some(5), Some(7)));
    let reasons: Vec<_> = whole.state.finish_reasons().collect();
    assert_eq!(reasons, [(0, Some("length")), (1, Some("stop"))]);
    let texts = whole.state.texts().expect("texts were asked for");
    assert_eq!(texts.pieces().collect::<String>(), "A1A2A3B1B2");
}

#[test]
fn d11_usage_of_each_choice_apart_adds_up() {
    // One usage on its own after each choice's end, as llama.cpp does, one choice after another
    // or both at once.
    for order in [[0, 0, 1, 1], [0, 1, 0, 1]] {
        let mut body = String::new();
        let mut open = Vec::new();
        for index in order {
            body.push_str(&chunk_of(index, "x"));
            if open.contains(&index) {
                body.push_str(&fin_of(index, "stop"));
                body.push_str(&usage(5, 3));
            }
            open.push(index);
        }
        let read = read([[body.as_str(), DONE].concat()]);
        assert_eq!(read.tokens(), (Some(5), Some(6)), "{order:?}");
    }
}

#[test]
fn d11_several_prompts_leave_the_prompt_count_unknown() {
    let end = |index: u32| {
        event(&format!(
            r#"{{"choices":[{{"index":{index},"text":"","finish_reason":"stop"}}],
               "usage":{{"prompt_tokens":2,"completion_tokens":8}}}}"#
        ))
    };
    let body = [event("null"), end(1), end(0), DONE.to_owned()].concat();
    assert_eq!(read([body]).tokens(), (None, Some(16)));
}

#[test]
fn d12_an_empty_finish_reason_is_none() {
    for finish in [r#","finish_reason":"""#, "", r#","finish_reason":null"#] {
        let json = format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"a"}}{finish}}}]}}"#);
        let open = read([event(&json)]);
        assert!(!open.state.finished(), "{finish}");
        let whole = read([[&event(&json), &event(&json), &fin("stop"), DONE]
            .map(|it: &str| it)
            .concat()]);
        assert!(whole.state.finished());
        assert_eq!(whole.text(), "aa");
    }
}

#[test]
fn d14_errors_inside_a_stream() {
    let object = r#"{"error":{"message":"engine died","type":"server_error","code":500}}"#;
    let (after_output, before_output) = ([ROLE, &chunk("a")].concat(), String::new());
    for start in [&after_output, &before_output] {
        for error in [
            event(object),
            event(r#"{"error":"engine died"}"#),
            ["event: error\n", &event(object)].concat(),
            ["event: error\n", &event(r#"{"message":"engine died"}"#)].concat(),
            event(r#"{"object":"error","message":"engine died","type":"x","code":500}"#),
            event(r#"{"type":"error","message":"engine died","code":"server_error"}"#),
        ] {
            let read = read([[start, error.as_str(), DONE].concat()]);
            let seen = read
                .state
                .error()
                .unwrap_or_else(|| panic!("no error in {error}"));
            assert_eq!(seen.message, "engine died", "{error}");
            assert!(!read.state.finished());
        }
    }
    let chunk = openai::chunk(&Event::of(object.as_bytes()));
    let error = error_of(&chunk);
    assert_eq!(error.kind.as_deref(), Some("server_error"));
    assert_eq!(error.code.as_deref(), Some("500"));
}

#[test]
fn d14_an_absent_error_is_no_error() {
    for none in ["null", "false", "\"\""] {
        let json =
            format!(r#"{{"error":{none},"choices":[{{"index":0,"delta":{{"content":"a"}}}}]}}"#);
        assert_eq!(read([event(&json)]).text(), "a", "{none}");
    }
}

#[test]
fn d14_an_error_without_a_message_shows_itself_whole() {
    let chunk = openai::chunk(&Event::of(br#"{"error":{"status":7}}"#));
    assert_eq!(error_of(&chunk).message, r#"{"status":7}"#);
    let chunk = openai::chunk(&Event::of(br#"{"error":["a","b"]}"#));
    assert_eq!(error_of(&chunk).message, r#"["a","b"]"#);
}

#[test]
fn d17_a_page_is_no_answer_and_no_panic() {
    let page = b"<html><h1>Bad gateway</h1></html>";
    assert_eq!(openai::body(page), Chunk::Unreadable(Unreadable::NotJson));
    let read = read([page]);
    assert!(read.seen.is_empty());
    assert!(!read.state.finished() && !read.state.done());
}

#[test]
fn d17_error_bodies_of_every_shape_have_their_message() {
    for (body, message) in [
        (
            r#"{"error":{"message":"no such model","code":404}}"#,
            "no such model",
        ),
        (
            r#"{"object":"error","message":"no such model"}"#,
            "no such model",
        ),
        (r#"{"detail":"no such model"}"#, "no such model"),
        (r#"{"detail":"a \"b\" \u00e9"}"#, "a \"b\" é"),
        (
            r#"{"detail":[{"loc":["body"],"msg":"x"}]}"#,
            r#"[{"loc":["body"],"msg":"x"}]"#,
        ),
    ] {
        assert_eq!(error_of(&openai::body(body.as_bytes())).message, message);
    }
}

#[test]
fn whole_bodies_say_the_same_as_streams() {
    let body = br#"{"id":"c1","model":"m","choices":[{"index":0,"message":{"role":"assistant",
        "content":"hi","reasoning":"th"},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":3,"completion_tokens":2,
                 "prompt_tokens_details":{"cached_tokens":1}}}"#;
    let mut state = StreamState::with_texts();
    let seen = state.absorb(&openai::body(body));
    assert_eq!(seen.kind, EventKind::Output);
    assert!(seen.first_output && state.finished() && state.done());
    let usage = Usage {
        prompt_tokens: Some(3),
        completion_tokens: Some(2),
        cached_tokens: Some(1),
    };
    assert_eq!(state.usage(), Some(usage));
    let texts = state.texts().expect("texts were asked for");
    assert_eq!(texts.pieces().collect::<Vec<_>>(), ["th", "hi"]);
}

#[test]
fn token_ids_give_exact_counts_per_event() {
    let json = |ids: &str| {
        event(&format!(
            r#"{{"choices":[{{"index":0,"delta":{{"content":"a"}},"token_ids":{ids}}}]}}"#
        ))
    };
    let read = read([["[5,6,7]", "null", "[]"].map(json).concat()]);
    let tokens: Vec<_> = read.seen.iter().map(|it| it.tokens).collect();
    assert_eq!(tokens, [Some(3), None, Some(0)]);
}

#[test]
fn odd_values_say_nothing_and_break_nothing() {
    for json in [
        r#"{"choices":[null,5,"x",[],{}]}"#,
        r#"{"choices":{"a":1}}"#,
        r#"{"choices":[{"index":-1,"delta":[1,2]}]}"#,
        r#"{"choices":[{"index":99999999999,"delta":{"content":5,"tool_calls":{}}}]}"#,
        r#"{"choices":[{"delta":{"content":{"a":["b"]},"tool_calls":[{"function":"x"}]}}]}"#,
        r#"{"choices":[{"finish_reason":{},"token_ids":7}],"model":1,"id":[]}"#,
        r#"{"usage":{"prompt_tokens":"3","completion_tokens":-2}}"#,
        r#"{"usage":{"prompt_tokens":1.5,"prompt_tokens_details":[]}}"#,
        r#"{"usage":[1]}"#,
        "{}",
        "null",
    ] {
        let read = read([event(json)]);
        assert_eq!(read.state.unreadable_events(), 0, "{json}");
        assert_eq!(read.state.output_events(), 0, "{json}");
        assert_eq!(read.state.usage(), None, "{json}");
    }
    for json in ["5", "[1]", "\"x\"", "true"] {
        let chunk = openai::chunk(&Event::of(json.as_bytes()));
        assert_eq!(chunk, Chunk::Unreadable(Unreadable::NotAnObject), "{json}");
    }
    for bytes in [&b"{"[..], b"{}{}", b"\xff\xfe", b"nul", b"{\"a\":\"\xff\"}"] {
        let chunk = openai::chunk(&Event::of(bytes));
        assert_eq!(chunk, Chunk::Unreadable(Unreadable::NotJson), "{bytes:?}");
    }
}

#[test]
fn absurd_counts_neither_wrap_nor_panic() {
    let end = |index: u32| {
        event(&format!(
            r#"{{"choices":[{{"index":{index},"finish_reason":"stop"}}],
               "usage":{{"completion_tokens":{}}}}}"#,
            u64::MAX
        ))
    };
    assert_eq!(read([[end(0), end(1)].concat()]).tokens(), (None, None));
}

#[test]
fn more_choices_than_any_engine_allows_never_count_as_finished() {
    let body: String = (0..2_000).map(|index| fin_of(index, "stop")).collect();
    let read = read([body]);
    assert_eq!(read.state.finish_reasons().count(), 1_024);
    assert!(!read.state.finished());
}

#[test]
fn of_long_names_and_messages_only_the_beginning_is_kept() {
    let long = "\u{e4}x".repeat(500_000);
    let body = [
        event(&format!(
            r#"{{"model":"{long}","choices":[{{"index":0,"finish_reason":"{long}"}}]}}"#
        )),
        event(&format!(
            r#"{{"error":{{"message":"{long}","type":"{long}","code":"{long}"}}}}"#
        )),
    ]
    .concat();
    let read = read([body]);
    let error = read.state.error().unwrap();
    // A character of two bytes lies over the 256th and over the 1,024th byte.
    let names = [
        read.state.model(),
        read.state.finish_reason(),
        error.kind.as_deref(),
        error.code.as_deref(),
    ];
    assert_eq!(names, [Some(&long[..255]); 4]);
    assert_eq!(error.message, long[..1_023]);
}
