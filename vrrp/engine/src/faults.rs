//! Threads that panic, for tests of what becomes of the others.

/// Each thread of the engine is here in each round; only in tests of this crate it does anything.
#[cfg(not(test))]
#[inline]
pub(crate) const fn round() {}

#[cfg(test)]
pub(crate) use self::tests::round;

#[cfg(test)]
mod tests;
