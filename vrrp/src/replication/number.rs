//! Sums that cannot overflow: at the largest number they stay there.

/// Adds one to a counter.
pub(super) fn count(counter: &mut u64) {
    add(counter, 1);
}

/// Adds `more` to a counter.
pub(super) fn add(counter: &mut u64, more: u64) {
    *counter = counter.saturating_add(more);
}

/// Returns the number after this one.
pub(super) fn after(number: u64) -> u64 {
    number.saturating_add(1)
}
