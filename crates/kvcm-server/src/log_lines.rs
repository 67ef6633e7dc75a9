//! What a test logs.

use std::{
    io::{self, Write},
    sync::Arc,
};

use parking_lot::Mutex;

/// A log in memory.
#[derive(Clone, Default)]
pub(crate) struct LogLines(Arc<Mutex<Vec<u8>>>);

impl LogLines {
    /// All lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0.lock()).into_owned();
        text.lines().map(str::to_owned).collect()
    }
}

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
