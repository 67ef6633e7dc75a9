//! The conformance suite that every coordination backend runs.
