//! The queries that the admin port understands.

/// The value of `prefix` in a query, %-codes decoded; `None` without one. A plus is a plus, for
/// request ids may hold one and never a blank.
///
/// # Errors
/// A sentence about an unknown or repeated key, or a broken %-code.
pub(super) fn prefix(query: Option<&str>) -> Result<Option<String>, String> {
    let [prefix] = members(query, ["prefix"])?;
    Ok(prefix)
}

/// The pool and the endpoint that a query names.
///
/// # Errors
/// A sentence: both are needed, once.
pub(super) fn endpoint(query: Option<&str>) -> Result<(String, String), String> {
    match members(query, ["pool", "endpoint"])? {
        [Some(pool), Some(endpoint)] => Ok((pool, endpoint)),
        _ => Err("name both: ?pool=NAME&endpoint=NAME".to_owned()),
    }
}

/// The values of the members `names`, decoded; no other ones may be there, none of them twice.
fn members<const N: usize>(
    query: Option<&str>,
    names: [&str; N],
) -> Result<[Option<String>; N], String> {
    let mut found = [const { None }; N];
    let pairs = query.unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let known = names.iter().position(|known| *known == name);
        let known = known.filter(|_| pair.contains('='));
        let slot = known.and_then(|i| found.get_mut(i));
        match slot {
            Some(slot @ None) => *slot = Some(decode(value)?),
            Some(Some(_)) => return Err(format!("give {name} once")),
            None => {
                return Err(format!(
                    "only ?{}=VALUE is understood",
                    names.join("=VALUE&")
                ));
            }
        }
    }
    Ok(found)
}

fn decode(text: &str) -> Result<String, String> {
    let broken = || "a %-code of the query is broken".to_owned();
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
    fn an_endpoint_is_named_by_both_its_names() {
        let named = |query| endpoint(Some(query));
        assert_eq!(
            named("endpoint=e%3A1&pool=p"),
            Ok(("p".into(), "e:1".into()))
        );
        for bad in [
            "pool=p",
            "endpoint=e",
            "pool=p&endpoint=e&x=1",
            "pool=p&pool=p&endpoint=e",
        ] {
            assert!(named(bad).is_err(), "{bad}");
        }
    }

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
