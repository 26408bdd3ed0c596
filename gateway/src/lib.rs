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
pub mod metrics {
    #[derive(Debug)] pub struct Metrics;
    impl Metrics { pub fn request_started(&self) {} pub fn settled(&self, _r: &inferscope_shared::record::gateway::GatewayRecord) {} }
}
pub mod records {
    #[derive(Debug)] pub struct Records;
    impl Records { pub fn submit(&self, r: inferscope_shared::record::gateway::GatewayRecord) { eprintln!("{}", serde_json::to_string(&r).unwrap()); } }
}
