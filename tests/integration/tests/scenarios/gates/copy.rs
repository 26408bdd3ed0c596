//! A copy of a run's raw files that can be spoilt and judged again.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use inferscope_tests::load::{Lab, Run};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The copy.
pub struct Copy {
    lab: Lab,
    raw: PathBuf,
    id: String,
}

/// What `loadgen validate` says of one.
pub struct Judged {
    /// Its exit code.
    pub code: Option<i32>,
    /// The verdict.
    pub status: String,
    /// All gates.
    pub gates: Vec<Value>,
    text: String,
}

impl Copy {
    /// Of everything that lies in the run's raw folder.
    pub fn of(run: &Run) -> Result<Self> {
        let lab = Lab::new()?;
        let raw = lab.path().join("results/raw").join(&run.id);
        fs::create_dir_all(&raw)?;
        let from = run.raw("manifest.json");
        for entry in fs::read_dir(from.parent().context("a folder")?)? {
            let entry = entry?;
            fs::copy(entry.path(), raw.join(entry.file_name()))?;
        }
        Ok(Self {
            lab,
            raw,
            id: run.id.clone(),
        })
    }

    /// Changes a JSON file.
    pub fn json(&self, name: &str, how: impl FnOnce(&mut Value)) -> Result<()> {
        let path = self.raw.join(name);
        let mut value: Value = serde_json::from_slice(&fs::read(&path)?)?;
        how(&mut value);
        Ok(fs::write(path, serde_json::to_vec(&value)?)?)
    }

    /// Changes each line of a JSONL file, or takes it away by returning false.
    pub fn lines(&self, name: &str, mut how: impl FnMut(usize, &mut Value) -> bool) -> Result<()> {
        let path = self.raw.join(name);
        let mut out = String::new();
        for (i, line) in fs::read_to_string(&path)?.lines().enumerate() {
            let mut value: Value = serde_json::from_str(line)?;
            if how(i, &mut value) {
                out.push_str(&format!("{value}\n"));
            }
        }
        Ok(fs::write(path, out)?)
    }

    /// Replaces a text in a file; it has to be there.
    pub fn replace(&self, name: &str, old: &str, new: &str) -> Result<()> {
        let path = self.raw.join(name);
        let text = fs::read_to_string(&path)?;
        ensure!(text.contains(old), "{name} has no {old:?}");
        Ok(fs::write(path, text.replace(old, new))?)
    }

    /// Writes a JSONL file anew.
    pub fn write(&self, name: &str, lines: &[Value]) -> Result<()> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        Ok(fs::write(self.raw.join(name), text)?)
    }

    /// The manifest.
    pub fn manifest(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&fs::read(
            self.raw.join("manifest.json"),
        )?)?)
    }

    /// Makes the manifest list the files as they are now: the case is what they say, not that
    /// somebody changed them.
    fn listed(&self) -> Result<()> {
        let mut manifest = self.manifest()?;
        let artifacts = manifest["artifacts"].as_array_mut().context("artifacts")?;
        for artifact in artifacts {
            let path = artifact["path"].as_str().unwrap_or_default();
            let name = path.rsplit('/').next().unwrap_or_default();
            if path.starts_with("raw/")
                && artifact["sha256"].is_string()
                && let Ok(bytes) = fs::read(self.raw.join(name))
            {
                artifact["sha256"] = hex::encode(Sha256::digest(&bytes)).into();
            }
        }
        Ok(fs::write(
            self.raw.join("manifest.json"),
            manifest.to_string(),
        )?)
    }

    /// Judges it.
    pub fn judged(&self) -> Result<Judged> {
        self.listed()?;
        let json = self.lab.command(&["validate", &self.id, "--json"])?;
        let mut json = json;
        let output = json.output()?;
        let said: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let text = self.lab.command(&["validate", &self.id])?.output()?;
        Ok(Judged {
            code: output.status.code(),
            status: said["status"].as_str().unwrap_or_default().to_owned(),
            gates: said["gates"].as_array().context("gates")?.clone(),
            text: String::from_utf8_lossy(&text.stdout).into_owned(),
        })
    }
}

impl Judged {
    /// What a gate found at its worst.
    pub fn worst(&self, id: &str) -> Option<&Value> {
        let of = |status: &str| {
            let mut gates = self.gates.iter().filter(|g| g["id"] == id);
            gates.find(|g| g["status"] == status)
        };
        ["FAIL", "UNDECIDED", "PASS", "NOT_APPLICABLE"]
            .into_iter()
            .find_map(of)
    }

    /// What is printed of a gate: what it found, whom it points at, what to do.
    pub fn line(&self, id: &str, status: &str) -> Result<String> {
        let begin = format!("{status} {id} [");
        let mut lines = self.text.lines().skip_while(|l| !l.starts_with(&begin));
        let found = lines.next();
        let found = found.with_context(|| format!("{begin} is not in\n{}", self.text))?;
        Ok(format!("{found}\n{}", lines.next().unwrap_or_default()))
    }

    /// How many gates there are, by what they found.
    pub fn counts(&self) -> &str {
        let mut lines = self.text.lines().rev();
        lines.find(|l| l.contains("gates")).unwrap_or_default()
    }
}
