//! The kvcm server: configuration, services, composition.

#[cfg(all(feature = "unsafe-no-fencing", not(debug_assertions)))]
compile_error!("unsafe-no-fencing is for tests of the tests and is never released");

mod access;
pub mod app;
mod audit;
mod caches;
pub mod cli;
mod cluster;
mod cluster_id;
pub mod config;
mod convert;
pub mod daemon;
mod elections;
mod faults;
mod grpc_health;
mod health;
mod hot;
pub mod http;
mod index_store;
#[cfg(test)]
mod log_lines;
pub mod logging;
mod members;
mod metrics;
mod node;
mod observe;
mod opening;
pub mod prepare;
mod reign;
mod reply;
mod requests;
mod rpc;
mod service;
pub mod signals;
mod stores;
mod streams;
pub mod tls;
mod traces;
mod turn;
