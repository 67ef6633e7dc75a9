//! The cache manager: write sessions, placement and quota over index, storage and journal.
