//! The kvcm server: configuration, services, composition.

pub mod app;
pub mod cli;
mod cluster;
mod cluster_id;
pub mod config;
mod convert;
mod faults;
mod health;
pub mod http;
pub mod logging;
mod members;
mod node;
pub mod prepare;
mod reign;
mod reply;
mod requests;
mod rpc;
mod service;
mod stores;
