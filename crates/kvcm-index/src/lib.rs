//! The block index: a synchronous data structure without input or output.
