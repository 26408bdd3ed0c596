use std::fs;
use std::io::Write as _;
use std::path::Path;

use bytes::Bytes;

use super::*;
use crate::config::{RecordsFile, RecordsRing};
use crate::metrics::sample_record;

fn metrics() -> Arc<Metrics> {
    Arc::new(Metrics::new([], []).unwrap())
}

fn start(file: Option<RecordsFile>) -> (Records, Arc<Metrics>) {
    let metrics = metrics();
    let config = RecordsConfig {
        file,
        ring: RecordsRing::default(),
        hash: false,
    };
    let records = Records::start(&config, "boot", &metrics).unwrap();
    (records, metrics)
}

fn named(id: &str) -> GatewayRecord {
    GatewayRecord {
        client_request_id: Some(id.to_owned()),
        ..sample_record()
    }
}

fn ids(lines: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(lines).unwrap();
    let mut lines = text.lines();
    let header: HeaderLine = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(header.header.boot_id, "boot");
    lines
        .map(|line| serde_json::from_str::<GatewayRecord>(line).unwrap())
        .filter_map(|record| record.client_request_id)
        .collect()
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn dropped(metrics: &Metrics, sink: &str) -> Option<u64> {
    let text = metrics.render().unwrap();
    let begin = format!("inferscope_gateway_records_dropped_total{{sink=\"{sink}\"}} ");
    text.lines()
        .find_map(|line| line.strip_prefix(&begin)?.parse().ok())
}

#[test]
fn a_query_finds_what_was_submitted_before_it() {
    let (records, _) = start(None);
    for id in ["run1.a.0", "run1.a.1", "run2.a.0"] {
        records.submit(named(id));
    }
    assert_eq!(ids(&records.query(Some("run1."))), ["run1.a.0", "run1.a.1"]);
    assert_eq!(ids(&records.query(None)).len(), 3);
    assert!(ids(&records.query(Some("run3"))).is_empty());
    assert_eq!(records.status().in_ring, 3);
    records.close();
    records.submit(named("late"));
    assert_eq!(records.status().ring_dropped, 1);
}

#[test]
fn a_file_has_its_header_first_and_an_earlier_one_is_rotated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records.jsonl");
    for run in ["one", "two"] {
        let (records, _) = start(Some(RecordsFile::at(path.clone())));
        records.submit(named(run));
        records.close();
        assert_eq!(ids(&fs::read(&path).unwrap()), [run]);
    }
    let names = names(directory.path());
    assert_eq!(names.len(), 2, "{names:?}");
    let old = fs::read(directory.path().join(&names[1])).unwrap();
    assert_eq!(ids(&zstd::decode_all(old.as_slice()).unwrap()), ["one"]);
}

#[test]
fn a_full_file_is_rotated_and_only_the_newest_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records.jsonl");
    let settings = RecordsFile {
        max_bytes: 1,
        keep: 2,
        ..RecordsFile::at(path.clone())
    };
    let metrics = metrics();
    let drops = Arc::new(Drops {
        sink: Sink::File,
        count: AtomicU64::new(0),
        failing: AtomicBool::new(false),
        metrics,
    });
    let mut file = RecordFile::open(&settings, "boot", drops).unwrap();
    for id in ["a", "b", "c", "d"] {
        let mut line = serde_json::to_vec(&named(id)).unwrap();
        line.push(b'\n');
        file.write(&[line.into()]);
    }
    assert_eq!(ids(&fs::read(&path).unwrap()), ["d"]);
    let kept: Vec<Vec<String>> = names(directory.path())[1..]
        .iter()
        .map(|name| {
            ids(&zstd::decode_all(fs::File::open(directory.path().join(name)).unwrap()).unwrap())
        })
        .collect();
    assert_eq!(kept, [["b"], ["c"]]);
}

#[test]
fn an_old_file_that_cannot_be_removed_stops_neither_start_nor_records() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records.jsonl");
    // Named like a rotated file, and no file.
    fs::create_dir(directory.path().join("records.jsonl.20200101T000000.0Z")).unwrap();
    let settings = RecordsFile {
        keep: 1,
        ..RecordsFile::at(path.clone())
    };
    for run in ["one", "two", "three"] {
        let (records, _) = start(Some(settings.clone()));
        records.submit(named(run));
        records.close();
        assert_eq!(records.status().file_dropped, Some(0));
        assert_eq!(ids(&fs::read(&path).unwrap()), [run]);
    }
    assert_eq!(names(directory.path()).len(), 3, "one rotated file is kept");
}

#[test]
fn o07_a_full_disk_drops_records_and_nothing_else() {
    let (records, metrics) = start(Some(RecordsFile::at("/dev/full".into())));
    for i in 0..10 {
        records.submit(named(&format!("r{i}")));
    }
    assert_eq!(ids(&records.query(None)).len(), 10, "the ring has them all");
    records.close();
    assert_eq!(records.status().file_dropped, Some(10));
    assert_eq!(dropped(&metrics, "file"), Some(10));
    assert_eq!(dropped(&metrics, "ring"), None);
}

#[test]
fn o07_writing_resumes_and_no_half_line_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records.jsonl");
    let metrics = metrics();
    let drops = Arc::new(Drops {
        sink: Sink::File,
        count: AtomicU64::new(0),
        failing: AtomicBool::new(false),
        metrics,
    });
    let settings = RecordsFile::at(path.clone());
    let mut file = RecordFile::open(&settings, "boot", Arc::clone(&drops)).unwrap();
    let line = |id: &str| {
        let mut line = serde_json::to_vec(&named(id)).unwrap();
        line.push(b'\n');
        Bytes::from(line)
    };
    file.write(&[line("a")]);
    let whole = fs::metadata(&path).unwrap().len();
    file.break_writes(true);
    file.write(&[line("b"), line("c")]);
    file.break_writes(false);
    assert_eq!(drops.get(), 2);
    // What a write that failed half way leaves.
    let mut half = fs::OpenOptions::new().append(true).open(&path).unwrap();
    half.write_all(&line("b")[..100]).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), whole + 100);
    file.write(&[line("d")]);
    assert_eq!(ids(&fs::read(&path).unwrap()), ["a", "d"]);
}

#[test]
fn o07_a_file_renamed_by_somebody_else_is_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records.jsonl");
    let metrics = metrics();
    let drops = Arc::new(Drops {
        sink: Sink::File,
        count: AtomicU64::new(0),
        failing: AtomicBool::new(false),
        metrics,
    });
    let mut file = RecordFile::open(&RecordsFile::at(path.clone()), "boot", drops).unwrap();
    let mut line = serde_json::to_vec(&named("a")).unwrap();
    line.push(b'\n');
    let line = Bytes::from(line);
    file.write(std::slice::from_ref(&line));
    fs::rename(&path, directory.path().join("moved")).unwrap();
    file.look_now();
    file.write(&[line]);
    assert_eq!(ids(&fs::read(&path).unwrap()), ["a"]);
}

#[test]
fn an_unwritable_path_is_one_clear_line() {
    let config = RecordsConfig {
        file: Some(RecordsFile::at("/nonexistent/records.jsonl".into())),
        ..RecordsConfig::default()
    };
    let error = Records::start(&config, "boot", &metrics()).unwrap_err();
    insta::assert_snapshot!(error, @"cannot write records to /nonexistent/records.jsonl: No such file or directory (os error 2); choose a path in a writable directory");
}
