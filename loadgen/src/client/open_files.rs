//! How many files this process may have open: each request in flight is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that a run has open besides its connections: results, pipes, timers, probes.
const MARGIN: u64 = 64;

/// Raises the soft limit to the hard one. Where that fails, [`check`] goes by what is left.
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Whether `connections` can be open at once.
///
/// # Errors
/// The limit, and what would be needed.
pub fn check(connections: u64) -> Result<(), String> {
    fits(getrlimit(Resource::Nofile).current, connections)
}

fn fits(limit: Option<u64>, connections: u64) -> Result<(), String> {
    let needed = connections.saturating_add(MARGIN);
    match limit {
        Some(limit) if limit < needed => Err(format!(
            "this process may open {limit} files and needs {needed}; raise the limit (ulimit -Hn) or ask for less"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_need_files_and_some_to_spare() {
        assert_eq!(fits(None, u64::MAX), Ok(()));
        assert_eq!(fits(Some(164), 100), Ok(()));
        let fault = fits(Some(163), 100).unwrap_err();
        assert!(fault.contains("163") && fault.contains("164"), "{fault}");
    }
}
