//! The kvcm server: configuration, services, composition.

pub mod cli;
pub mod config;
pub mod http;
pub mod logging;
