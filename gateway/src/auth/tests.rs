use super::*;

const KEY: &str = "isk_AbCdEf0123456789";

fn config() -> Config {
    let secret = Secret::new("a secret of the server".to_owned());
    let hash = crate::config::hash_text(&keys::hash(&secret, KEY.as_bytes()));
    let other = crate::config::hash_text(&keys::hash(&secret, b"another key"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), secret.expose()).unwrap();
    let text = format!(
        "version: 1
listen: [{{addr: '127.0.0.1:0'}}]
auth:
  secret: file:{}
  keys:
    - {{id: a, tenant: red, hash: '{hash}'}}
    - {{id: b, tenant: blue, hash: '{other}'}}
tenants: {{red: {{models: [small]}}, blue: {{}}}}
models: {{small: {{pool: p}}, large: {{pool: p}}}}
pools: {{p: {{endpoints: [{{url: 'http://127.0.0.1:1'}}]}}}}
",
        file.path().display()
    );
    Config::parse("t.yaml", &text).unwrap()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(*name, HeaderValue::from_str(value).unwrap());
    }
    map
}

/// Key id, or status.
fn ask(pairs: &[(&'static str, &str)]) -> Result<String, u16> {
    Authenticator::new(&config())
        .authenticate(&headers(pairs))
        .map(|principal| principal.key_id)
        .map_err(|refusal| refusal.status().as_u16())
}

#[test]
fn a01_the_scheme_is_read_in_any_case_and_the_key_exactly() {
    for good in [
        format!("bearer {KEY}"),
        format!("BEARER {KEY}"),
        format!("Bearer  {KEY}"),
        format!("Bearer {KEY} "),
    ] {
        assert_eq!(
            ask(&[("authorization", &good)]),
            Ok("a".to_owned()),
            "{good}"
        );
    }
    for bad in [
        format!("Bearer\t{KEY}"),
        format!("bearer{KEY}"),
        format!("Basic {KEY}"),
        format!("Bearer {}", KEY.to_lowercase()),
        format!("Bearer {KEY}x"),
        format!("Bearer {}", &KEY[1..]),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        KEY.to_owned(),
    ] {
        assert_eq!(ask(&[("authorization", &bad)]), Err(401), "{bad}");
    }
}

#[test]
fn x_api_key_is_as_good_and_two_credentials_are_none() {
    assert_eq!(ask(&[("x-api-key", KEY)]), Ok("a".to_owned()));
    assert_eq!(ask(&[("x-api-key", "")]), Err(401));
    assert_eq!(ask(&[]), Err(401));
    let bearer = format!("Bearer {KEY}");
    assert_eq!(
        ask(&[("authorization", &bearer), ("x-api-key", KEY)]),
        Err(400)
    );
    assert_eq!(
        ask(&[("authorization", &bearer), ("authorization", &bearer)]),
        Err(400)
    );
}

#[test]
fn a_tenant_may_use_its_models_only() {
    let authenticator = Authenticator::new(&config());
    let red = authenticator
        .authenticate(&headers(&[("x-api-key", KEY)]))
        .unwrap();
    assert_eq!(red.tenant, "red");
    assert!(red.may_use("small").is_ok());
    assert_eq!(red.may_use("large").unwrap_err().status().as_u16(), 403);
    let blue = authenticator
        .authenticate(&headers(&[("x-api-key", "another key")]))
        .unwrap();
    assert!(blue.may_use("large").is_ok());
}

#[test]
fn a14_neither_debug_nor_a_refusal_shows_a_key_or_the_secret() {
    let config = config();
    let authenticator = Authenticator::new(&config);
    let refusal = authenticator
        .authenticate(&headers(&[("x-api-key", "isk_wrong-key")]))
        .unwrap_err();
    let shown = format!(
        "{config:?} {authenticator:?} {refusal:?} {:?} {:?}",
        refusal.body(),
        refusal.headers()
    );
    for secret in [
        KEY,
        "another key",
        "a secret of the server",
        "isk_wrong-key",
    ] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(shown.contains("[redacted]"));
}

#[test]
fn a_new_key_has_256_bits_and_its_hash_depends_on_the_secret() {
    let (key, other) = (keys::generate(), keys::generate());
    assert_eq!(key.expose().len(), "isk_".len() + 43);
    assert_ne!(key, other);
    let hash = |secret: &str| keys::hash(&Secret::new(secret.to_owned()), key.expose().as_bytes());
    assert_eq!(hash("one"), hash("one"));
    assert_ne!(hash("one"), hash("two"));
    assert!(keys::same_secret(b"one", &Secret::new("one".to_owned())));
    assert!(!keys::same_secret(b"onE", &Secret::new("one".to_owned())));
}

#[test]
fn hmac_is_the_standard_one() {
    // RFC 4231, test case 2.
    let hash = keys::hash(
        &Secret::new("Jefe".to_owned()),
        b"what do ya want for nothing?",
    );
    assert_eq!(
        hex::encode(hash),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}
