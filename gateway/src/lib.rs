//! A front door for OpenAI-compatible engines that changes no byte and stamps every chunk.
//!
//! A request's way: [`listener`] (connections, the stamped stream) → [`intake`] (head, caller,
//! body) → [`admission`] → [`routing`] → [`proxy`] (pingora's phases) → [`relay`] (forward first, look after) →
//! [`settle`] (record and metrics). [`exchange`] is the request on that way, [`fault`] what went
//! wrong with it, [`upstream`] the way to an engine.
//!
//! Around it: [`config`], [`auth`], [`errors`], [`headers`], [`routes`], [`metrics`],
//! [`records`], the inner ports in [`admin`], the process in [`server`], the commands in [`cli`].

pub mod admin;
pub mod admission;
pub mod auth;
pub mod cli;
pub mod config;
pub mod errors;
pub mod exchange;
pub mod fault;
pub mod headers;
pub mod intake;
pub mod limits;
pub mod listener;
pub mod metrics;
pub mod proxy;
pub mod queue;
pub mod records;
pub mod relay;
pub mod routes;
pub mod routing;
pub mod server;
pub mod settle;
pub mod upstream;
