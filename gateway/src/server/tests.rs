use super::*;
use crate::config::{RecordsConfig, RecordsFile};
use crate::metrics::sample_record;

/// An exchange, as far as its end is concerned: it settles when it is dropped.
struct Settles(Arc<Records>);

impl Drop for Settles {
    fn drop(&mut self) {
        self.0.submit(sample_record());
    }
}

#[test]
fn a_request_that_the_runtime_drops_still_has_its_record() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("records.jsonl");
    let config = RecordsConfig {
        file: Some(RecordsFile::at(path.clone())),
        ..RecordsConfig::default()
    };
    let metrics = Arc::new(Metrics::new([], []).unwrap());
    let records = Arc::new(Records::start(&config, "boot", &metrics).unwrap());

    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let open = Settles(Arc::clone(&records));
    runtime.spawn(async move {
        let _open = open;
        std::future::pending::<()>().await;
    });
    end(runtime, &records);

    let written = std::fs::read_to_string(path).unwrap();
    assert_eq!(written.lines().count(), 2, "a header and one record");
}
