//! Waiting on conditions, with a limit and a readable complaint.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::anyhow;

/// Interval between two looks at a condition.
const LOOK: Duration = Duration::from_millis(50);

/// Context of an error after which waiting on is of no use: a process that has to bring the condition about has ended.
#[derive(Clone, Copy, Debug)]
pub struct Hopeless;

impl fmt::Display for Hopeless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no use to wait on")
    }
}

/// Waits until `check` returns `Ok(Some(_))`. An error is no failure yet (an API server may be starting): the last one is
/// reported after `limit`, so `check` should put what it sees into its error. An error with the context [`Hopeless`] ends
/// the wait immediately.
pub async fn await_that<T>(
    what: &str,
    limit: Duration,
    mut check: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let begin = Instant::now();
    let mut seen = anyhow!("nothing yet");
    loop {
        let left = limit.saturating_sub(begin.elapsed());
        match tokio::time::timeout(left.max(LOOK), check()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => seen = anyhow!("not so"),
            Ok(Err(error)) if error.is::<Hopeless>() => {
                return Err(error.context(format!("waiting until {what}")));
            }
            Ok(Err(error)) => seen = error,
            Err(_) => seen = seen.context("a look that did not end"),
        }
        if begin.elapsed() >= limit {
            let waited = begin.elapsed().as_secs_f64();
            return Err(anyhow!("waited {waited:.1} s until {what}; last seen: {seen:#}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests;
