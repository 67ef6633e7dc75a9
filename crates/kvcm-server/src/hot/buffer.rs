//! Memory of answers that have been sent, for those to come.

use std::{
    cell::RefCell,
    ops::{Deref, DerefMut},
};

/// Buffers that a thread keeps: as many as it has answers on their way at a time, or nearly.
const KEPT: usize = 16;
/// Larger ones, of answers with more than 2000 locations or so, are not kept.
const BYTES_MAX: usize = 256 << 10;

thread_local! {
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// The bytes of an answer. The buffer that was freed last is used first: its memory is still in the
/// processor's cache, where an allocator may give it back to the kernel or hand out a cold one.
#[derive(Debug, Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// An empty one, of memory that was used before if this thread has some.
    pub(super) fn used() -> Self {
        let free = FREE.try_with(|free| free.borrow_mut().pop());
        Self(free.ok().flatten().unwrap_or_default())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.0.capacity() == 0 || self.0.capacity() > BYTES_MAX {
            return;
        }
        let mut bytes = std::mem::take(&mut self.0);
        // A thread that is ending keeps nothing.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT {
                bytes.clear();
                free.push(bytes);
            }
        });
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn sent(bytes: usize) -> *const u8 {
        let mut buffer = Buffer::used();
        assert!(buffer.is_empty(), "what was in it is nobody's business");
        buffer.resize(bytes, 7);
        let answer = Bytes::from_owner(buffer);
        answer.as_ptr()
    }

    #[test]
    fn the_memory_of_an_answer_that_was_sent_is_that_of_the_next() {
        let first = sent(1000);
        assert_eq!(sent(500), first);
        let two = [Buffer::used(), Buffer::used()];
        assert_ne!(two[0].as_ptr(), two[1].as_ptr());
    }

    #[test]
    fn a_thread_keeps_few_buffers_and_no_large_one() {
        let many: Vec<_> = (0..2 * KEPT).map(|_| Buffer(vec![1; 100])).collect();
        drop(many);
        FREE.with(|free| assert_eq!(free.borrow().len(), KEPT));
        FREE.with(|free| free.borrow_mut().clear());
        drop(Buffer(vec![1; BYTES_MAX + 1]));
        FREE.with(|free| assert!(free.borrow().is_empty()));
    }
}
