//! Giving the content of a store to a sink, in order and without holes that nobody hears of.

use bytes::Bytes;
use kvcm_fence::ClusterId;

use crate::{
    LoadError, LoadSink, Loaded, LogSize, Record, Skipped,
    group::{self, Piece},
};

/// Gives the content of a store to a sink.
#[derive(Debug)]
pub(crate) struct Replay {
    cluster: ClusterId,
    /// The number of the last record that the sink has, or that the snapshot covers.
    last: u64,
    loaded: Loaded,
    log: LogSize,
}

impl Replay {
    /// Of a store of this cluster.
    pub(crate) fn new(cluster: ClusterId) -> Self {
        Self {
            cluster,
            last: 0,
            loaded: Loaded::default(),
            log: LogSize::default(),
        }
    }

    /// One chunk of the snapshot that covers all batches up to `through`.
    pub(crate) fn chunk(
        &mut self,
        through: u64,
        version: u16,
        chunk: Bytes,
        sink: &mut (dyn LoadSink + Send),
    ) -> Result<(), LoadError> {
        self.last = through;
        self.loaded.snapshot_chunks += 1;
        self.loaded.bytes += chunk.len() as u64;
        let given = sink.snapshot(version, chunk);
        given.map_err(|source| LoadError::Rejected { source })
    }

    /// The snapshot covers all batches up to `through`.
    pub(crate) fn snapshot_through(&mut self, through: u64) {
        self.last = through;
    }

    /// A part of the log, which stands at `place`.
    pub(crate) fn piece(
        &mut self,
        place: impl Fn() -> String + Copy,
        piece: &Piece,
        sink: &mut (dyn LoadSink + Send),
    ) -> Result<(), LoadError> {
        let (records, wrong) = group::records(piece);
        if let Some(wrong) = wrong {
            let count = records.len();
            self.skip(
                &place(),
                format!("{wrong}; {count} records beside it are whole"),
            );
        }
        for record in records {
            self.record(place, &record, sink)?;
        }
        Ok(())
    }

    /// Something that cannot be read at all.
    pub(crate) fn skip(&mut self, place: &str, reason: impl Into<String>) {
        self.loaded.skipped.push(Skipped {
            place: place.to_owned(),
            reason: reason.into(),
        });
    }

    /// The end of the log, whose last batch is `last`.
    pub(crate) fn finish(mut self, place: &str, last: u64) -> (Loaded, LogSize) {
        if last > self.last {
            let reason = format!("records {} to {last} are missing", self.last + 1);
            self.skip(place, reason);
        }
        self.loaded.last_seq = last.max(self.last);
        (self.loaded, self.log)
    }

    fn record(
        &mut self,
        place: impl Fn() -> String,
        record: &Record,
        sink: &mut (dyn LoadSink + Send),
    ) -> Result<(), LoadError> {
        if record.cluster != self.cluster {
            let reason = format!("record {} is of cluster {}", record.seq, record.cluster);
            self.skip(&place(), reason);
            return Ok(());
        }
        if record.seq <= self.last {
            return Ok(());
        }
        if record.seq > self.last + 1 {
            let (first, last) = (self.last + 1, record.seq - 1);
            self.skip(
                &place(),
                format!("records {first} to {last} before it are missing"),
            );
        }
        self.last = record.seq;
        self.loaded.records += 1;
        self.log.records += 1;
        let size = record.batch.size() as u64;
        self.loaded.bytes += size;
        self.log.bytes += size;
        let given = sink.record(record);
        given.map_err(|source| LoadError::Rejected { source })
    }
}
