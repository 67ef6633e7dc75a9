//! The kvcm server: configuration, services, composition.

pub mod app;
mod audit;
pub mod cli;
mod cluster;
mod cluster_id;
pub mod config;
mod convert;
mod elections;
mod faults;
mod grpc_health;
pub mod daemon;
mod health;
pub mod http;
pub mod logging;
mod members;
mod metrics;
mod node;
mod observe;
pub mod prepare;
mod reign;
mod reply;
mod requests;
mod rpc;
mod service;
pub mod signals;
mod stores;
pub mod tls;
