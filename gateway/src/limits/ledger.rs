//! Budgets across processes: what was spent of the day and the month, in a small file.
//!
//! The file lies beside the record file and is replaced in one step, so it is whole at any instant.
//! It is written every few seconds and when the process ends; a process that is killed loses what
//! was spent since. A file that can't be read is told and counts as empty: a lost budget must not
//! keep a gateway from starting. Without a record file budgets begin at zero with each process.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Id;
use super::account::{Account, Scope, Spending};
use crate::config::Config;

/// The file's version.
const SCHEMA_VERSION: u32 = 1;

/// What a ledger holds.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spent {
    schema_version: u32,
    keys: BTreeMap<String, Spending>,
    tenants: BTreeMap<String, Spending>,
    pools: BTreeMap<String, Spending>,
}

impl Spent {
    const fn of(&mut self, scope: Scope) -> &mut BTreeMap<String, Spending> {
        match scope {
            Scope::Key => &mut self.keys,
            Scope::Tenant => &mut self.tenants,
            Scope::Pool => &mut self.pools,
        }
    }
}

/// Where the ledger of `config` lies, if it has budgets and a place for files.
pub(super) fn path(config: &Config) -> Option<PathBuf> {
    let file = config.records.file.as_ref()?;
    config.has_budgets().then(|| {
        let mut path = file.path.clone().into_os_string();
        path.push(".budgets.json");
        path.into()
    })
}

/// What was spent, out of the accounts.
pub(super) fn spent(book: &BTreeMap<Id, Account>) -> Spent {
    let mut spent = Spent {
        schema_version: SCHEMA_VERSION,
        ..Spent::default()
    };
    for ((scope, name), account) in book {
        if account.spent != Spending::default() {
            spent.of(*scope).insert(name.clone(), account.spent.clone());
        }
    }
    spent
}

/// The accounts as the file at `path` leaves them.
pub(super) fn load(path: Option<&Path>) -> BTreeMap<Id, Account> {
    let Some(path) = path else {
        return BTreeMap::new();
    };
    let mut read = match read(path) {
        Ok(Some(spent)) => spent,
        Ok(None) => return BTreeMap::new(),
        Err(error) => {
            tracing::error!(path = %path.display(), error, "budgets begin at zero: the file of what was spent cannot be used; restore or remove it");
            return BTreeMap::new();
        }
    };
    let mut book = BTreeMap::new();
    for scope in [Scope::Key, Scope::Tenant, Scope::Pool] {
        for (name, spent) in std::mem::take(read.of(scope)) {
            book.insert((scope, name), Account::from(spent));
        }
    }
    book
}

fn read(path: &Path) -> Result<Option<Spent>, String> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let spent: Spent = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if spent.schema_version != SCHEMA_VERSION {
        return Err(format!("it is of version {}", spent.schema_version));
    }
    Ok(Some(spent))
}

/// Writes `spent` to `path`. A failure is told, and made good by the next time.
pub(super) fn save(path: &Path, spent: &Spent) {
    let written = || -> std::io::Result<()> {
        let mut beside = path.to_owned().into_os_string();
        beside.push(".new");
        let text = serde_json::to_vec(spent)?;
        let mut file = File::create(&beside)?;
        file.write_all(&text)?;
        // Else a machine that loses power can come back with the name and none of the content.
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    if let Err(error) = written() {
        tracing::error!(path = %path.display(), %error, "what was spent of budgets could not be written; make room or correct the path's rights");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spent_is_there_in_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.json");
        assert!(load(Some(&path)).is_empty());
        let mut account = Account::default();
        account.spent.day.add("2026-12-01", 7);
        let id = (Scope::Tenant, "t".to_owned());
        let book = BTreeMap::from([
            (id.clone(), account),
            ((Scope::Key, "k".to_owned()), Account::default()),
        ]);
        save(&path, &spent(&book));
        let read = load(Some(&path));
        assert_eq!(read.len(), 1, "what was not used is not kept");
        assert_eq!(read[&id].spent.day.within("2026-12-01"), 7);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_no_reason_not_to_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.json");
        for text in [
            "",
            "{",
            "[]",
            r#"{"schema_version":9,"keys":{},"tenants":{},"pools":{}}"#,
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(load(Some(&path)).is_empty(), "{text}");
        }
    }
}
