//! Entries of an answer by copying one of them.

use std::marker::PhantomData;

use kvcm_cache::{ReplySink, Run, View};

/// Bytes that other entries may be longer than the first.
const SPARE: usize = 8;

/// One entry of an answer with holes for the middles of its URIs, which are all it differs in from
/// its neighbours.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(super) bytes: Vec<u8>,
    holes: Vec<usize>,
    /// Bytes of each hole.
    hole: usize,
}

/// How a protocol writes one entry.
pub(crate) trait Entry {
    /// Lays an entry out. Its URIs have a hole of [`Layout::hole`] bytes.
    fn lay_out(view: &View<'_>, layout: &mut Layout);
}

impl Layout {
    fn new<E: Entry>(view: &View<'_>, hole: usize) -> Self {
        let mut layout = Self {
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

    /// Appends an entry.
    #[inline]
    fn put(&mut self, layout: &Layout, middle: &[u8]) {
        let needed = layout.bytes.len();
        if self.out.capacity() - self.out.len() < needed {
            // At once for all that are left, if they are like this one.
            self.out.reserve(self.left.max(1) * (needed + SPARE));
        }
        layout.copy_to(self.out, middle);
        self.left = self.left.saturating_sub(1);
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
        // Middles have a few lengths: hexadecimal digits of keys, digits of numbers of blocks.
        let mut layouts: Vec<Layout> = Vec::new();
        let mut last = 0;
        for middle in run.middles() {
            let middle = middle.as_bytes();
            let fits = |layout: &Layout| layout.hole == middle.len();
            if !layouts.get(last).is_some_and(fits) {
                last = layouts.iter().position(fits).unwrap_or(layouts.len());
                if last == layouts.len() {
                    layouts.push(Layout::new::<E>(&run.first(), middle.len()));
                }
            }
            self.put(&layouts[last], middle);
        }
    }
}
