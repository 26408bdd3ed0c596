//! What the crate promises, seen from outside: framing and dialect cases by their ids, any cut of
//! a stream, the bytes that real engines sent, the checked-in schemas, and what the crate must
//! not depend on.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod captures;
mod cuts;
mod dependencies;
mod dialects;
mod framing;
mod metrics;
mod responses;
mod schemas;
mod support;
