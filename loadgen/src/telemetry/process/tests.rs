use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use super::find::{by_address, by_name, command_of};
use super::*;

/// A process that lives until its input ends, with what it says on its first line.
fn child(script: &str) -> (Child, String) {
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let out = child.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    (child, line.trim().to_owned())
}

#[test]
fn a_tree_is_a_process_with_its_descendants_and_what_vanishes_is_data() {
    let (mut child, grandchild) = child("sleep 60 & echo $!; read x");
    let mut tree = Tree::of(child.id()).unwrap();
    let sample = tree.sample(true);
    assert_eq!((sample.pid, sample.processes), (child.id(), 2));
    assert!(sample.threads >= 2 && sample.rss_bytes > 0);
    assert!(sample.pss_bytes.unwrap() > 0, "{sample:?}");
    let worker: u32 = grandchild.parse().unwrap();
    assert_eq!(belongs(worker, child.id()), Some(true));
    assert_eq!(belongs(std::process::id(), child.id()), Some(false));

    child.kill().unwrap();
    child.wait().unwrap();
    let later = tree.sample(true);
    assert_eq!(later.processes, 1, "a worker outlives its parent");
    assert!(later.cpu_seconds >= sample.cpu_seconds);
    assert_eq!(belongs(child.id(), 1), None);
    assert!(Tree::of(child.id()).unwrap_err().contains("not there"));
    let killed = Command::new("kill").arg(grandchild).status().unwrap();
    assert!(killed.success());
}

#[test]
fn cpu_of_a_child_counts_once_whether_its_parent_has_waited_for_it_or_not() {
    let member = |parent, ticks, ticks_of_ended| Member {
        start: 0,
        ticks,
        ticks_of_ended,
        parent,
        alive: true,
    };
    let mut tree = Tree {
        root: 1,
        command: String::new(),
        members: BTreeMap::from([
            (1, member(0, 10, 0)),
            (2, member(1, 5, 0)),
            (3, member(2, 7, 0)),
        ]),
        ticks: 0,
        pss_took: Duration::ZERO,
    };
    assert_eq!(tree.add_up(), 22);
    tree.members.remove(&3);
    tree.members.insert(2, member(1, 5, 8));
    assert_eq!(tree.add_up(), 23);
    // The parent gave no account of it.
    tree.members.insert(2, member(1, 5, 0));
    assert_eq!(tree.add_up(), 23, "never less than before");
}

#[test]
fn the_owner_of_a_listening_socket_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    assert_eq!(by_address(&[address]), Ok(std::process::id()));
    let everywhere = TcpListener::bind("[::]:0").unwrap();
    let port = everywhere.local_addr().unwrap().port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(by_address(&[address]), Ok(std::process::id()));
}

#[test]
fn what_cannot_be_found_is_said() {
    // TEST-NET-1 is nobody's.
    let foreign = SocketAddr::from(([192, 0, 2, 1], 80));
    let why = by_address(&[foreign]).unwrap_err();
    assert!(why.contains("192.0.2.1:80 is on another host"), "{why}");
    let free = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let why = by_address(&[free]).unwrap_err();
    assert!(why.contains("nothing listens"), "{why}");
}

#[test]
fn a_process_is_named_by_a_part_of_its_command_line_if_only_one_fits() {
    let mark = format!("mark-{}", uuid::Uuid::new_v4().simple());
    let why = by_name(&mark).unwrap_err();
    assert!(why.contains("no command line holds"), "{why}");
    let (mut first, _) = child(&format!("echo {mark}; read x"));
    assert_eq!(by_name(&mark), Ok(first.id()));
    let (mut second, _) = child(&format!("echo {mark}; read x"));
    let why = by_name(&mark).unwrap_err();
    for pid in BTreeSet::from([first.id(), second.id()]) {
        assert!(why.contains(&pid.to_string()), "{why}");
    }
    assert_eq!(command_of(first.id()), "sh -c");
    for child in [&mut first, &mut second] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
