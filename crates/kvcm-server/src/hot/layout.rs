//! Entries of an answer by copying one of them.

use std::marker::PhantomData;

use kvcm_cache::{ReplySink, Run, View, key_digits, key_length};

/// Bytes that other entries may be longer than the first.
const SPARE: usize = 8;
/// How many bytes of entries are copied at a time, so far as they are not one entry.
const AT_ONCE: usize = 2048;
/// Digits of a key without zeros in front, as most keys are.
const DIGITS: usize = 16;

/// One entry of an answer with holes for the middles of its URIs, which are all it differs in from
/// its neighbours.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(super) bytes: Vec<u8>,
    holes: Vec<usize>,
    /// Bytes of each hole.
    hole: usize,
    /// The bytes again and again.
    repeated: Vec<u8>,
}

/// How a protocol writes one entry.
pub(crate) trait Entry {
    /// Lays an entry out. Its URIs have a hole of [`Layout::hole`] bytes.
    fn lay_out(view: &View<'_>, layout: &mut Layout);
}

impl Layout {
    fn new<E: Entry>(view: &View<'_>, hole: usize) -> Self {
        let mut layout = Self {
            // For a spec or two.
            bytes: Vec::with_capacity(256),
            hole,
            ..Self::default()
        };
        E::lay_out(view, &mut layout);
        layout
    }

    /// Bytes of each hole.
    pub(super) const fn hole(&self) -> usize {
        self.hole
    }

    /// Leaves a hole here.
    pub(super) fn leave(&mut self) {
        self.holes.push(self.bytes.len());
        self.bytes.resize(self.bytes.len() + self.hole, 0);
    }

    /// Appends the entry with `middle` in its holes, which has their size.
    fn copy_to(&self, out: &mut Vec<u8>, middle: &[u8]) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        for hole in &self.holes {
            out[start + hole..][..middle.len()].copy_from_slice(middle);
        }
    }

    /// Appends an entry for each of these keys, all of which have as many digits as the holes.
    fn copy_all_to(&mut self, out: &mut Vec<u8>, keys: &[i64]) {
        let length = self.bytes.len();
        for keys in keys.chunks((AT_ONCE / length).max(1)) {
            let start = out.len();
            let needed = keys.len() * length;
            self.repeated
                .reserve(needed.saturating_sub(self.repeated.len()));
            while self.repeated.len() < needed {
                self.repeated.extend_from_slice(&self.bytes);
            }
            out.extend_from_slice(&self.repeated[..needed]);
            let entries = out[start..].chunks_exact_mut(length);
            for (entry, key) in entries.zip(keys) {
                let digits = key_digits(*key);
                for hole in &self.holes {
                    match self.hole {
                        // A copy of a known size is a single instruction.
                        DIGITS => entry[*hole..][..DIGITS].copy_from_slice(&digits),
                        few => entry[*hole..][..few].copy_from_slice(&digits[DIGITS - few..]),
                    }
                }
            }
        }
    }
}

/// Writes the entries of an answer behind what `out` holds.
#[derive(Debug)]
pub(super) struct Entries<'a, E> {
    out: &'a mut Vec<u8>,
    /// Entries that are expected and not written yet.
    left: usize,
    /// The last entry, if it was a placeholder.
    placeholder: Option<Layout>,
    entry: PhantomData<E>,
}

impl<'a, E: Entry> Entries<'a, E> {
    pub(super) const fn new(out: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            left: 0,
            placeholder: None,
            entry: PhantomData,
        }
    }

    /// Makes room for so many entries like this one.
    fn reserve(&mut self, layout: &Layout, count: usize) {
        let entry = layout.bytes.len();
        if self.out.capacity() - self.out.len() < count * entry {
            // At once for all that are left, if they are like this one.
            self.out.reserve(self.left.max(count) * (entry + SPARE));
        }
        self.left = self.left.saturating_sub(count);
    }

    /// Appends an entry.
    #[inline]
    fn put(&mut self, layout: &Layout, middle: &[u8]) {
        self.reserve(layout, 1);
        layout.copy_to(self.out, middle);
    }
}

/// The layouts of a run, by the length of the middles.
struct Layouts<'a, E> {
    run: &'a Run<'a>,
    // Middles have a few lengths: hexadecimal digits of keys, digits of numbers of blocks.
    known: Vec<Layout>,
    entry: PhantomData<E>,
}

impl<'a, E: Entry> Layouts<'a, E> {
    const fn of(run: &'a Run<'a>) -> Self {
        Self {
            run,
            known: Vec::new(),
            entry: PhantomData,
        }
    }

    #[inline]
    fn get(&mut self, hole: usize) -> &mut Layout {
        let at = self.known.iter().position(|layout| layout.hole == hole);
        let at = at.unwrap_or_else(|| {
            self.known.push(Layout::new::<E>(&self.run.first(), hole));
            self.known.len() - 1
        });
        &mut self.known[at]
    }
}

impl<E: Entry> ReplySink for Entries<'_, E> {
    fn expect(&mut self, entries: usize) {
        self.left = entries;
    }

    fn location(&mut self, view: &View<'_>) {
        let uri = view.specs().find_map(|spec| spec.uri());
        let middle = uri.as_ref().map_or(&[][..], |uri| uri.middle().as_bytes());
        // All placeholders of an answer are the same.
        let known = self.placeholder.take().filter(|_| view.is_placeholder());
        let layout = known.unwrap_or_else(|| Layout::new::<E>(view, middle.len()));
        self.put(&layout, middle);
        self.placeholder = view.is_placeholder().then_some(layout);
    }

    fn run(&mut self, run: &Run<'_>) {
        let mut layouts = Layouts::<E>::of(run);
        let Some(keys) = run.digits_of() else {
            for middle in run.middles() {
                let middle = middle.as_bytes();
                self.put(layouts.get(middle.len()), middle);
            }
            return;
        };
        for keys in keys.chunk_by(|a, b| key_length(*a) == key_length(*b)) {
            let layout = layouts.get(key_length(keys[0]));
            self.reserve(layout, keys.len());
            layout.copy_all_to(self.out, keys);
        }
    }
}
