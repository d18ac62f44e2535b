//! Checks of this node and of backends, judged over time. [`crate::checks`] makes the attempts.
//!
//! | file | concept |
//! |---|---|
//! | `rise_and_fall` | how many results in a row count; pure |
//! | `cadence` | when the next attempt begins, and whether the process stood still; pure |
//! | `runner` | a check made again and again |
//!
//! A server that stops answering is found failing `fall` intervals and 50 ms later at the latest: each interval has one attempt, which takes
//! no longer than it, and after `fall - 1` failures the last one is not waited for as long. With a `fall` of 1 it is an interval and the
//! timeout. What fails again and again has to prove itself when it passes again.

mod cadence;
mod rise_and_fall;
mod runner;

pub(crate) use self::rise_and_fall::{CheckState, Verdict};
pub(crate) use self::runner::run;

#[cfg(test)]
mod tests;

/// Result of one attempt: success, or the reason for the failure, for people.
type Answer = Result<(), String>;
