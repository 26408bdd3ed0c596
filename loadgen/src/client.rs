//! One HTTP exchange, stamped where the bytes cross the socket.
//!
//! - [`target`]: a base URL as something to connect to.
//! - [`io`]: the stamped socket under hyper.
//! - [`kernel_clock`]: the kernel's receive stamps on the monotonic clock.
//! - [`connection`]: connect, reuse, and the pool of an arm.
//! - [`exchange`]: send one request and collect bytes and stamps; nothing is interpreted there
//!   but the end mark, so that work on one stream delays the others as little as possible.
//! - [`fold`]: what the collected bytes mean, off the measuring thread.
//! - [`open_files`]: how many connections this process may have.
//! - [`simple`]: small requests outside of any measurement.
//!
//! All stamps are CLOCK_MONOTONIC. A connection and the body it carries are polled in one task:
//! no wake-up lies between the read and the stream's reader.

pub mod connection;
pub mod exchange;
pub mod fold;
pub mod io;
pub mod kernel_clock;
pub mod open_files;
pub mod simple;
pub mod target;
