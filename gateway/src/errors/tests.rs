use super::*;

#[test]
fn each_kind_has_its_own_label_and_a_status_that_says_no() {
    for (i, kind) in Kind::ALL.iter().enumerate() {
        assert!(Kind::ALL[..i].iter().all(|k| k.label() != kind.label()));
        let status = Refusal::from(*kind).status();
        assert!(status.is_client_error() || status.is_server_error());
    }
}

#[test]
fn the_table_as_clients_see_it() {
    let table: Vec<String> = Kind::ALL
        .iter()
        .map(|kind| {
            let row = kind.row();
            let retry = if row.retryable { " retry" } else { "" };
            format!(
                "{} {} {} {}{retry}",
                row.label,
                row.status.as_u16(),
                row.openai_type,
                row.code
            )
        })
        .collect();
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn a_body_is_an_openai_error_object() {
    insta::assert_snapshot!(String::from_utf8_lossy(&Refusal::model_not_found("gpt\"9\n").body()), @r#"{"error":{"code":"model_not_found","message":"the model `gpt\"9\n` does not exist here: GET /v1/models lists what is served","param":"model","type":"invalid_request_error"}}"#);
}

#[test]
fn an_unknown_path_is_told_with_those_that_there_are() {
    let served = ["/v1/completions".to_owned(), "/v1/models".to_owned()];
    insta::assert_snapshot!(Refusal::route_not_found("/v1/x", &served).message, @"the path /v1/x is not served here: use one of /v1/completions, /v1/models");
}

#[test]
fn a_long_name_is_not_repeated_in_full() {
    let body = Refusal::model_not_found(&"ä".repeat(1_000_000)).body();
    assert!(body.len() < 500, "{}", body.len());
}

#[test]
fn what_a_client_should_do_next_is_in_the_headers() {
    let headers = |refusal: Refusal| -> String {
        refusal
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()))
            .collect()
    };
    insta::assert_snapshot!(headers(Refusal::draining()), @r"
    x-should-retry: true
    retry-after: 1
    ");
    let pause = |ms| headers(Refusal::draining().after(Duration::from_millis(ms)));
    insta::assert_snapshot!(pause(6_000), @r"
    x-should-retry: true
    retry-after: 6
    retry-after-ms: 6000
    ");
    insta::assert_snapshot!(pause(90_000), @r"
    x-should-retry: true
    retry-after: 60
    retry-after-ms: 60000
    ");
    insta::assert_snapshot!(headers(Kind::CredentialInvalid.into()), @r#"
    x-should-retry: false
    www-authenticate: Bearer realm="inferscope", error="invalid_token"
    "#);
    insta::assert_snapshot!(headers(Refusal::method_not_allowed("/v1/models", &Method::GET)), @r"
    x-should-retry: false
    allow: GET
    ");
}

#[test]
fn who_is_refused_at_once_does_not_come_back_at_once() {
    let ms = Duration::from_millis;
    for (pause, told) in [(0, 1_000), (200, 1_000), (1_000, 1_000), (5_400, 6_000)] {
        assert_eq!(spread(ms(pause), 0.0), ms(pause), "never too early");
        assert_eq!(spread(ms(pause), 1.0), ms(told), "nor later than is told");
    }
    assert_eq!(spread(ms(5_400), 0.5), ms(5_700));
    let drawn: std::collections::BTreeSet<Duration> = (0..20)
        .filter_map(|_| Refusal::draining().after(ms(5_400)).retry_after)
        .collect();
    assert!(drawn.len() > 1 && drawn.iter().all(|d| (ms(5_400)..=ms(6_000)).contains(d)));
}
