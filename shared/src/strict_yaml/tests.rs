//! What a user sees for each kind of fault.

use super::*;

/// Reads a small made-up configuration and returns all complaints.
fn complaints(text: &str) -> String {
    let mut problems = Problems::new("t.yaml");
    if let Some(root) = parse(text, &mut problems)
        && let Some(mut map) = root.map(&mut problems)
    {
        map.u64("requests", &mut problems);
        map.duration("timeout", &mut problems);
        map.size_bytes("body", &mut problems);
        map.bool("hash", &mut problems);
        map.one_of("mode", &mut problems, &[("none", 0), ("keys", 1)]);
        map.read("names", &mut problems, |n, p| Some(n.list(p, Node::text)));
        map.not_in_this_version("queue", &mut problems);
        map.finish(&mut problems);
    }
    problems.to_string()
}

#[test]
fn a_good_file_has_no_complaints() {
    let text = "requests: 5\ntimeout: 200ms\nbody: 32MiB\nhash: true\nmode: keys\nnames: [a, b]\n";
    assert_eq!(complaints(text), "");
}

#[test]
fn all_faults_are_listed_at_once_in_file_order() {
    let text = "requests: -1\ntimeuot: 5s\ntimeout: 5\nbody: {}\nhash: yes\nmode: jwt\nqueue: {a: 1}\nnames: [a, [b]]\n";
    insta::assert_snapshot!(complaints(text), @r#"
    t.yaml:1:11: requests: expected a whole number, 0 or more, found "-1"
    t.yaml:2:1: timeuot: unknown key "timeuot"; did you mean "timeout"?
    t.yaml:3:10: timeout: "5" is not a duration: write a number with us, ms, s, m, h or d, such as 200ms
    t.yaml:4:7: body: expected a text, found a map
    t.yaml:5:7: hash: expected true or false, found "yes"
    t.yaml:6:7: mode: expected one of none, keys, found "jwt"
    t.yaml:7:8: queue: is not in this version; remove it
    t.yaml:8:12: names[1]: expected a text, found a list
    "#);
}

#[test]
fn repeated_keys_point_at_both_places() {
    insta::assert_snapshot!(complaints("requests: 1\nmode: none\nrequests: 2\n"),
        @r#"t.yaml:3:1: requests: "requests" is given twice; the first is on line 1"#);
}

#[test]
fn syntax_aliases_tags_and_second_documents_are_refused() {
    assert!(complaints("requests: [1\n").contains("not valid YAML"));
    assert!(complaints("").contains("the file is empty"));
    assert!(complaints("requests: &a 1\nmode: *a\n").contains("aliases are not supported"));
    assert!(complaints("requests: !!int 1\n").contains("tags are not supported"));
    assert!(complaints("requests: 1\n---\nrequests: 2\n").contains("second document"));
    assert!(complaints(&"[".repeat(200)).contains("levels deep"));
}

#[test]
fn null_counts_as_absent_and_need_says_what_is_missing() {
    let mut problems = Problems::new("t.yaml");
    let root = parse("a: ~\n", &mut problems).unwrap();
    let mut map = root.map(&mut problems).unwrap();
    assert!(map.need("a", "5", &mut problems).is_none());
    map.finish(&mut problems);
    assert_eq!(
        problems.to_string(),
        "t.yaml:1:1: \"a\" is missing: add it, such as `a: 5`"
    );
}
