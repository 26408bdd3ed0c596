//! A tokenizer from a `tokenizer.json` on this machine.
//!
//! Needs the feature `tokenizer`; without it the setting is refused with a line that says so.

use std::path::Path;

/// A tokenizer that was read.
#[derive(Debug)]
pub struct Local {
    #[cfg(feature = "tokenizer")]
    tokenizer: tokenizers::Tokenizer,
}

#[cfg(feature = "tokenizer")]
impl Local {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// One line: the setting, its value, what to do.
    pub fn open(path: &Path) -> Result<Self, String> {
        let tokenizer = tokenizers::Tokenizer::from_file(path).map_err(|e| {
            format!(
                "prompts.tokenizer {}: cannot be read as tokenizer.json ({e}); give the file of \
                 the model's own folder, or leave it out to ask the engine's /tokenize",
                path.display()
            )
        })?;
        Ok(Self { tokenizer })
    }

    /// Tokens of a text, without any that a template would add.
    ///
    /// # Errors
    /// The tokenizer's.
    pub fn count(&self, text: &str) -> Result<u64, String> {
        let encoded = self.tokenizer.encode_fast(text, false);
        let encoded = encoded.map_err(|e| format!("prompts.tokenizer: {e}"))?;
        Ok(encoded.len() as u64)
    }
}

#[cfg(not(feature = "tokenizer"))]
impl Local {
    /// Refuses: this build has no tokenizer.
    ///
    /// # Errors
    /// Always, with the remedy.
    pub fn open(path: &Path) -> Result<Self, String> {
        Err(format!(
            "prompts.tokenizer {}: this loadgen was built without local tokenizers; build it with \
             --features tokenizer, or leave it out to ask the engine's /tokenize",
            path.display()
        ))
    }

    /// Never reached, since none can be opened.
    ///
    /// # Errors
    /// Always.
    pub fn count(&self, _text: &str) -> Result<u64, String> {
        Err("built without local tokenizers".to_owned())
    }
}
