//! Scripts as a JSON file, for `fake-engine --script FILE`.
//!
//! ```json
//! {"scripts": {"cut": [{"head_sse": true}, {"event": "{\"choices\":[]}"},
//!                      {"delay_ms": 20, "write_hex": "0d0a"}, {"rst": true}]},
//!  "routes": {"/v1/models": {"script": "cut", "before_body": false}}}
//! ```
//! A step is one action, with `delay_ms` before it when wanted; a list of lists gives the
//! scripts that a name plays in turn. Unknown fields are errors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use serde::Deserialize;

use super::Script;
use super::stage::Scripts;

/// Why a script file was refused.
#[derive(Debug, thiserror::Error)]
pub enum ScriptFileError {
    /// The file can't be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It isn't the JSON that a script file is made of.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A step that can't be played.
    #[error("{}: script {script:?}, step {step}: {problem}", path.display())]
    Step {
        /// The file.
        path: PathBuf,
        /// The script's name.
        script: String,
        /// The step, counted from 1.
        step: usize,
        /// What is wrong with it.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scripts: BTreeMap<String, Turns>,
    #[serde(default)]
    routes: BTreeMap<String, RouteEntry>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Turns {
    One(Vec<Entry>),
    Many(Vec<Vec<Entry>>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteEntry {
    script: String,
    #[serde(default)]
    before_body: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Entry {
    delay_ms: Option<f64>,
    write: Option<String>,
    write_hex: Option<String>,
    write_b64: Option<String>,
    chunk: Option<String>,
    event: Option<String>,
    head_sse: bool,
    done: bool,
    end: bool,
    shutdown_write: bool,
    fin: bool,
    close: bool,
    rst: bool,
    silence: bool,
}

type Act = fn(Script) -> Script;

/// Reads a script file.
///
/// # Errors
/// When the file can't be read, isn't valid, or holds a step that can't be played.
pub fn load(path: &Path) -> Result<Scripts, ScriptFileError> {
    let text = std::fs::read_to_string(path).map_err(|source| ScriptFileError::Read {
        path: path.to_owned(),
        source,
    })?;
    let file: File = serde_json::from_str(&text).map_err(|source| ScriptFileError::Json {
        path: path.to_owned(),
        source,
    })?;
    let mut scripts = Scripts::new();
    for (name, turns) in file.scripts {
        let turns = match turns {
            Turns::One(entries) => vec![entries],
            Turns::Many(lists) => lists,
        };
        for entries in turns {
            let mut script = Script::new();
            for (i, entry) in entries.into_iter().enumerate() {
                script = entry
                    .onto(script)
                    .map_err(|problem| ScriptFileError::Step {
                        path: path.to_owned(),
                        script: name.clone(),
                        step: i + 1,
                        problem,
                    })?;
            }
            scripts = scripts.add(&name, script);
        }
    }
    for (path, route) in file.routes {
        scripts = scripts.with_route(&path, &route.script, route.before_body);
    }
    Ok(scripts)
}

impl Entry {
    fn onto(self, mut script: Script) -> Result<Script, String> {
        if let Some(ms) = self.delay_ms {
            let pause = Duration::try_from_secs_f64(ms / 1_000.0)
                .map_err(|_| format!("delay_ms {ms} is not a time; give 0 or more milliseconds"))?;
            script = script.delay(pause);
        }
        let before = script.steps.len();
        let bytes = [
            self.write.map(String::into_bytes),
            self.write_hex
                .map(|s| hex::decode(&s))
                .transpose()
                .map_err(|e| format!("write_hex: {e}"))?,
            self.write_b64
                .map(|s| base64::engine::general_purpose::STANDARD.decode(s))
                .transpose()
                .map_err(|e| format!("write_b64: {e}"))?,
        ];
        for bytes in bytes.into_iter().flatten() {
            script = script.raw(bytes);
        }
        if let Some(content) = self.chunk {
            script = script.chunk(content);
        }
        if let Some(data) = self.event {
            script = script.event(&data);
        }
        let flags: [(bool, Act); 7] = [
            (self.head_sse, Script::head_sse),
            (self.done, Script::done),
            (self.end, Script::end),
            (self.shutdown_write, Script::shutdown_write),
            (self.fin || self.close, Script::close),
            (self.rst, Script::rst),
            (self.silence, Script::hold),
        ];
        for (wanted, act) in flags {
            if wanted {
                script = act(script);
            }
        }
        match script.steps.len() - before {
            0 if self.delay_ms.is_some() => Ok(script),
            1 => Ok(script),
            0 => Err("does nothing; give one action".to_owned()),
            n => Err(format!("has {n} actions; give one action a step")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Scripts, ScriptFileError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.json");
        std::fs::write(&path, text).unwrap();
        load(&path)
    }

    #[test]
    fn steps_become_bytes() {
        let scripts = read(
            r#"{"scripts": {"a": [{"head_sse": true}, {"delay_ms": 1.5, "write_hex": "ff00"},
                {"write_b64": "AAE="}, {"write": "x"}, {"event": "y"}, {"rst": true}],
                "b": [[{"fin": true}], [{"silence": true}]]},
                "routes": {"/v1/models": {"script": "a"}}}"#,
        )
        .unwrap();
        let expected = Script::new()
            .head_sse()
            .delay(Duration::from_micros(1_500))
            .raw([0xff, 0])
            .raw([0, 1])
            .raw("x")
            .event("y")
            .rst();
        assert_eq!(scripts.named[0], ("a".to_owned(), expected));
        assert_eq!(scripts.named[2], ("b".to_owned(), Script::new().hold()));
        assert_eq!(scripts.routes.len(), 1);
    }

    #[test]
    fn bad_steps_are_named() {
        for (text, problem) in [
            (
                r#"{"scripts": {"a": [{}]}}"#,
                "script \"a\", step 1: does nothing",
            ),
            (
                r#"{"scripts": {"a": [{"rst": true, "fin": true}]}}"#,
                "has 2 actions",
            ),
            (r#"{"scripts": {"a": [{"write_hex": "0g"}]}}"#, "write_hex"),
            (r#"{"scripts": {}, "extra": 1}"#, "unknown field `extra`"),
        ] {
            let said = read(text).unwrap_err().to_string();
            assert!(said.contains(problem), "{said}");
        }
    }
}
