//! Growing the long columns of the table.

/// Pushes, and grows by an eighth where a vector would double: there are several columns, each as
/// long as the index has keys, and on average a quarter of doubled ones lies idle.
#[inline]
pub(crate) fn push<T>(column: &mut Vec<T>, value: T) {
    if column.len() == column.capacity() {
        column.reserve_exact(column.len() / 8 + 64);
    }
    column.push(value);
}
