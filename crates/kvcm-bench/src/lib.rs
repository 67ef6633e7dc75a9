//! The demonstration and the benches.

mod history;

pub use history::{
    Call, Carried, Change, Gap, History, Reign, StaleReply, Unsettled, What, WrongRead, carried,
    check_epochs, check_reads, gap, reigns,
};
