//! Telling that a load gets on.

use std::fmt;

use bytes::Bytes;

use crate::{LoadSink, Record, Source};

/// Whom a load tells that it has got on by one step; nobody by default.
#[derive(Default)]
pub(crate) struct Progress(Option<Box<dyn Fn() + Send + Sync>>);

impl Progress {
    pub(crate) fn to(report: Box<dyn Fn() + Send + Sync>) -> Self {
        Self(Some(report))
    }

    /// Passes everything on to `sink`, and tells of it.
    pub(crate) fn of<'a>(&'a self, sink: &'a mut (dyn LoadSink + Send)) -> Reporting<'a> {
        Reporting {
            sink,
            progress: self,
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Progress(reported: {})", self.0.is_some())
    }
}

/// A sink of which is told whenever it has taken something.
pub(crate) struct Reporting<'a> {
    sink: &'a mut (dyn LoadSink + Send),
    progress: &'a Progress,
}

impl Reporting<'_> {
    fn report(&self) {
        if let Some(report) = &self.progress.0 {
            report();
        }
    }
}

impl LoadSink for Reporting<'_> {
    fn snapshot(&mut self, version: u16, chunk: Bytes) -> Result<(), Source> {
        self.sink.snapshot(version, chunk)?;
        self.report();
        Ok(())
    }

    fn record(&mut self, record: &Record) -> Result<(), Source> {
        self.sink.record(record)?;
        self.report();
        Ok(())
    }
}
