//! The demonstration and the benches.

pub mod api;
mod bare;
pub mod cache;
pub mod chaos;
pub mod client;
pub mod coordination;
pub mod demo;
pub mod failover;
mod history;
pub mod interrupt;
mod machine;
mod samples;
pub mod serve;
mod table;

pub use history::{
    Call, Carried, Change, Gap, History, Reign, StaleReply, Unsettled, What, WrongRead, carried,
    check_epochs, check_reads, gap, reigns,
};
