//! The gateway.
#![allow(missing_docs, warnings)]
pub mod exchange;
pub mod fault;
pub mod intake;
pub mod listener;
pub mod proxy;
pub mod relay;
pub mod routing;
pub mod server;
pub mod settle;
pub mod upstream;

pub mod config;
pub mod auth;
pub mod errors;
pub mod routes;
pub mod headers;
pub mod metrics;
pub mod records;
pub mod admin;
pub mod cli;
