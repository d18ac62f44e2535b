//! Threads that panic, for tests of what becomes of the others.

/// Called by each thread of the engine in each round; does something only in tests of this crate.
#[cfg(not(test))]
#[inline]
pub(crate) const fn round() {}

#[cfg(test)]
pub(crate) use self::tests::round;

#[cfg(test)]
mod tests;
