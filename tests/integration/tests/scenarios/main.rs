//! Scenarios over the built binaries, one module per behaviour.

mod clients;
mod real_engine;
