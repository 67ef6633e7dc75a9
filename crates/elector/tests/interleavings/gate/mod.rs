//! The sources of the gate, over atomics that can be scheduled.

#[path = "../../../src/gate/admission.rs"]
mod admission;
mod atoms;
#[path = "../../../src/gate/in_flight.rs"]
mod in_flight;

pub(crate) use admission::{Admission, Gate};
pub(crate) use atoms::Notify;
