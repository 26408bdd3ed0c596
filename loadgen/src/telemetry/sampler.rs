//! When sources are sampled, by whom, and what it costs.
//!
//! One thread per source, which lets all others go first. Around each point it takes a sample
//! before its first and after its last request, and in between at absolute instants, an interval
//! apart; an instant that passes while a sample is still being taken is left out, never made up
//! for. Whoever asks for the samples around a point waits for them: nothing of the point is in
//! flight then.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use inferscope_shared::clock::MonoNs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::{SourceReport, Spent};
use crate::drive::timer;

/// When a sample is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Before the point's first request.
    Before,
    /// While it runs.
    During,
    /// After its last request.
    After,
}

/// Lines of one sample.
#[derive(Debug, Default)]
pub struct Lines(Vec<u8>);

impl Lines {
    /// Adds a line.
    pub fn push(&mut self, line: &impl Serialize) {
        let start = self.0.len();
        // Lines are plain records; one that cannot be written leaves no half of itself.
        match serde_json::to_writer(&mut self.0, line) {
            Ok(()) => self.0.push(b'\n'),
            Err(_) => self.0.truncate(start),
        }
    }

    /// Their bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Something that can be sampled.
pub trait Source: Send {
    /// Takes one sample.
    ///
    /// # Errors
    /// Why there is nothing to write.
    fn sample(&mut self, point_id: &str, when: When, lines: &mut Lines) -> Result<(), String>;

    /// Waits until what a point left behind can be sampled; no part of what a sample takes.
    fn settle(&mut self) {}

    /// What only the source knows of itself.
    fn describe(&self, _report: &mut SourceReport) {}
}

/// A line of a source's file: a sample, or the only one, which says why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Line<T> {
    /// No data.
    Unavailable(Unavailable),
    /// A sample.
    Sample(T),
}

/// A source without data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unavailable {
    /// False.
    pub available: bool,
    /// Why.
    pub reason: String,
}

enum Command {
    Point {
        id: String,
        when: When,
        taken: oneshot::Sender<()>,
    },
}

/// A source with its thread and its file.
#[derive(Debug)]
pub struct Sampler {
    commands: Sender<Command>,
    thread: JoinHandle<(SourceReport, io::Result<()>)>,
}

impl Sampler {
    /// Creates the file and starts the thread, on which `open` makes the source.
    ///
    /// # Errors
    /// When the file exists or cannot be created, or no thread can be started.
    pub fn start(
        name: &'static str,
        path: &Path,
        interval: Duration,
        open: impl FnOnce() -> Result<Box<dyn Source>, String> + Send + 'static,
    ) -> io::Result<Self> {
        let file = File::create_new(path)?;
        let (commands, wanted) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(format!("t-{name}"))
            .spawn(move || {
                timer::stand_back();
                let (source, reason) = match open() {
                    Ok(source) => (Some(source), None),
                    Err(why) => (None, Some(why)),
                };
                let run = Run {
                    source,
                    reason,
                    file,
                    spent: Spent::default(),
                    failed: 0,
                    disk: Ok(()),
                };
                run.until_over(name, interval, &wanted)
            })?;
        Ok(Self { commands, thread })
    }

    /// Asks for the sample before or after a point.
    pub fn point(&self, id: &str, when: When) -> oneshot::Receiver<()> {
        let (taken, done) = oneshot::channel();
        // A thread that failed drops both ends; its report says so.
        let _ = self.commands.send(Command::Point {
            id: id.to_owned(),
            when,
            taken,
        });
        done
    }

    /// Ends the thread; what it did, and the first write that failed.
    pub fn finish(self, name: &str) -> (SourceReport, io::Result<()>) {
        drop(self.commands);
        self.thread.join().unwrap_or_else(|_| {
            (
                SourceReport::absent(name, "its thread failed"),
                Err(io::Error::other(format!("the {name} thread failed"))),
            )
        })
    }
}

struct Run {
    source: Option<Box<dyn Source>>,
    reason: Option<String>,
    file: File,
    spent: Spent,
    failed: u64,
    disk: io::Result<()>,
}

impl Run {
    fn until_over(
        mut self,
        name: &str,
        interval: Duration,
        commands: &Receiver<Command>,
    ) -> (SourceReport, io::Result<()>) {
        let mut running: Option<(String, MonoNs)> = None;
        loop {
            let command = match &running {
                None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some((_, next)) => {
                    commands.recv_timeout(Duration::from_nanos(next.since(MonoNs::now())))
                }
            };
            match command {
                Ok(Command::Point { id, when, taken }) => {
                    self.take(&id, when);
                    // Whoever asked may have been interrupted.
                    let _ = taken.send(());
                    running = (when == When::Before).then(|| (id, MonoNs::now().plus(interval)));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let Some((id, next)) = &mut running else {
                        continue;
                    };
                    self.take(id, When::During);
                    let now = MonoNs::now();
                    while *next <= now {
                        *next = next.plus(interval);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.close(name, interval)
    }

    fn take(&mut self, point_id: &str, when: When) {
        let Some(source) = &mut self.source else {
            return;
        };
        if when == When::After {
            source.settle();
        }
        let mut lines = Lines::default();
        match self
            .spent
            .time(|| source.sample(point_id, when, &mut lines))
        {
            Ok(()) => {
                let written = self.file.write_all(&lines.into_bytes());
                if self.disk.is_ok() {
                    self.disk = written;
                }
            }
            Err(why) => {
                self.failed += 1;
                self.reason = Some(why);
            }
        }
    }

    fn close(mut self, name: &str, interval: Duration) -> (SourceReport, io::Result<()>) {
        let mut report = self.spent.report(name, Some(interval.as_secs_f64() * 1e3));
        report.samples -= self.failed;
        report.failed = self.failed;
        report.available = report.samples > 0;
        if let Some(source) = &self.source {
            source.describe(&mut report);
        }
        if !report.available {
            let reason = self.reason.get_or_insert_with(|| "no point ran".to_owned());
            let mut line = Lines::default();
            line.push(&Unavailable {
                available: false,
                reason: reason.clone(),
            });
            let written = self.file.write_all(&line.into_bytes());
            self.disk = self.disk.and(written);
        }
        report.reason = self.reason;
        (report, self.disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(u64);

    impl Source for Counting {
        fn sample(&mut self, point: &str, when: When, lines: &mut Lines) -> Result<(), String> {
            self.0 += 1;
            if point == "mute" {
                return Err("says nothing".to_owned());
            }
            lines.push(&(point, when, self.0));
            Ok(())
        }

        fn describe(&self, report: &mut SourceReport) {
            report.subject = Some("a counter".to_owned());
        }
    }

    fn run(points: &[&str], interval: Duration, wait_for: usize) -> (SourceReport, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        let open = || Ok(Box::new(Counting(0)) as Box<dyn Source>);
        let sampler = Sampler::start("x", &path, interval, open).unwrap();
        let text = || std::fs::read_to_string(&path).unwrap();
        for point in points {
            sampler.point(point, When::Before).blocking_recv().unwrap();
            while text().lines().count() < wait_for {
                thread::yield_now();
            }
            sampler.point(point, When::After).blocking_recv().unwrap();
        }
        let (report, disk) = sampler.finish("x");
        disk.unwrap();
        let lines = text().lines().map(str::to_owned).collect();
        (report, lines)
    }

    #[test]
    fn a_point_is_sampled_before_during_and_after_and_never_in_between() {
        let (report, lines) = run(&["p1"], Duration::from_millis(1), 4);
        assert_eq!(lines[0], r#"["p1","before",1]"#);
        assert_eq!(lines[1], r#"["p1","during",2]"#);
        let last = lines.last().unwrap();
        assert!(last.starts_with(r#"["p1","after","#), "{last}");
        assert_eq!(report.samples, lines.len() as u64);
        assert!(report.sample_ms.max >= report.sample_ms.p50);
        assert!(report.cpu_seconds.is_some() && report.available);
        assert_eq!(report.subject.as_deref(), Some("a counter"));
    }

    #[test]
    fn a_source_without_data_leaves_one_line_with_the_reason() {
        let (report, lines) = run(&["mute"], Duration::from_secs(60), 0);
        assert_eq!(lines, [r#"{"available":false,"reason":"says nothing"}"#]);
        assert_eq!((report.samples, report.failed), (0, 2));
        let (report, lines) = run(&["p1", "mute"], Duration::from_secs(60), 0);
        assert_eq!(lines.len(), 2);
        assert!(report.available);
        assert_eq!(report.reason.as_deref(), Some("says nothing"));
        let (report, lines) = run(&[], Duration::from_secs(60), 0);
        assert_eq!(lines, [r#"{"available":false,"reason":"no point ran"}"#]);
        assert_eq!(report.reason.as_deref(), Some("no point ran"));
    }

    #[test]
    fn a_source_that_cannot_be_opened_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        let sampler = Sampler::start("x", &path, Duration::from_secs(1), || {
            Err("not here".to_owned())
        });
        let sampler = sampler.unwrap();
        sampler.point("p", When::Before).blocking_recv().unwrap();
        let (report, _) = sampler.finish("x");
        assert_eq!(report.reason.as_deref(), Some("not here"));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "{\"available\":false,\"reason\":\"not here\"}\n");
    }
}
