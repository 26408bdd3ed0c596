//! Scenarios over the built binaries, one module per behaviour.

mod clients;
mod dialects;
mod framing;
mod play;
mod real_engine;
