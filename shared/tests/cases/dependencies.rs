//! The crate is pure: no runtime, no proxy, no HTTP client comes with it.

use std::process::Command;

#[test]
fn no_async_runtime_and_no_network_stack_come_with_the_crate() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "-p",
            "inferscope-shared",
            "-e",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}", "--offline", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs this test, so it is there");
    let tree = String::from_utf8(output.stdout).expect("package names are text");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let names: Vec<_> = tree.lines().filter_map(|it| it.split(' ').next()).collect();
    assert!(names.contains(&"memchr"), "the tree is not empty: {tree}");
    for banned in [
        "tokio",
        "hyper",
        "mio",
        "async-trait",
        "futures-core",
        "http",
        "socket2",
    ] {
        assert!(!names.contains(&banned), "{banned} came in:\n{tree}");
    }
    assert!(
        !names.iter().any(|it| it.starts_with("pingora")),
        "pingora came in:\n{tree}"
    );
}
