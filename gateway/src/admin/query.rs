//! The one query that the admin port understands.

/// The value of `prefix` in a query, %-codes decoded; `None` without one. A plus is a plus, for
/// request ids may hold one and never a blank.
///
/// # Errors
/// A sentence about an unknown or repeated key, or a broken %-code.
pub(super) fn prefix(query: Option<&str>) -> Result<Option<String>, String> {
    let mut found = None;
    for pair in query
        .unwrap_or_default()
        .split('&')
        .filter(|p| !p.is_empty())
    {
        match pair.split_once('=') {
            Some(("prefix", value)) if found.is_none() => found = Some(decode(value)?),
            Some(("prefix", _)) => return Err("give prefix once".to_owned()),
            _ => return Err("only ?prefix=ID is understood".to_owned()),
        }
    }
    Ok(found)
}

fn decode(text: &str) -> Result<String, String> {
    let broken = || "a %-code of the prefix is broken".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let (code, after) = after.split_at_checked(2).ok_or_else(broken)?;
            let mut decoded = [0];
            hex::decode_to_slice(code, &mut decoded).map_err(|_| broken())?;
            bytes.push(decoded[0]);
            rest = after;
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_decoded_and_everything_else_refused() {
        assert_eq!(prefix(None), Ok(None));
        assert_eq!(prefix(Some("")), Ok(None));
        assert_eq!(
            prefix(Some("prefix=run.a+b%2Fc")),
            Ok(Some("run.a+b/c".to_owned()))
        );
        assert_eq!(prefix(Some("prefix=")), Ok(Some(String::new())));
        for bad in [
            "prefix=%2",
            "prefix=%zz",
            "prefix=%ff",
            "prefix=a&prefix=b",
            "limit=5",
            "prefix",
        ] {
            assert!(prefix(Some(bad)).is_err(), "{bad}");
        }
    }
}
