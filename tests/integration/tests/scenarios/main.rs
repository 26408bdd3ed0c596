//! Scenarios over the built binaries, one module per behaviour.

mod before;
mod calibrated;
mod captures;
mod clients;
mod dialects;
mod endings;
mod evidence;
mod faults;
mod framing;
mod gates;
mod overload;
mod play;
mod probe;
mod real_engine;
mod reload;
mod requests;
mod results;
mod routing;
mod runs;
mod schedules;
mod secrets;
mod slow;
mod stalled;
mod telemetry;
