//! The limit on calls, without a clock: a bucket that fills at a steady rate and from which each call takes a token.

use std::time::Duration;

use tokio::time::Instant;

/// Limit on the calls of a process (`--kube-api-qps`, `--kube-api-burst`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateLimit {
    per_second: f64,
    burst: u32,
}

/// Reason that values do not form a [`RateLimit`].
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum RateLimitError {
    /// Zero or no number.
    #[error(
        "{0} calls per second cannot be kept to: give --kube-api-qps a number above 0, or a negative one for no limit"
    )]
    PerSecond(f64),
    /// No call would ever be made.
    #[error("a burst of 0 lets no call through: give --kube-api-burst a number above 0")]
    Burst,
}

impl RateLimit {
    /// Defaults of Kubernetes, for the flag that is not given when the other one is.
    const PER_SECOND: f64 = 20.0;
    const BURST: u32 = 30;

    /// Returns a limit of `per_second` calls each second on average, in bursts of at most `burst`.
    ///
    /// # Errors
    /// When one of them would never let a call through.
    pub fn new(per_second: f64, burst: u32) -> Result<Self, RateLimitError> {
        if !per_second.is_finite() || per_second <= 0.0 {
            return Err(RateLimitError::PerSecond(per_second));
        }
        if burst == 0 {
            return Err(RateLimitError::Burst);
        }
        Ok(Self { per_second, burst })
    }

    /// The limit that the flags `--kube-api-qps` and `--kube-api-burst` ask for. Neither given, or a negative rate as in
    /// client-go: none. One given: the other one is 20, or 30.
    ///
    /// # Errors
    /// As [`RateLimit::new`].
    pub fn from_flags(per_second: Option<f64>, burst: Option<u32>) -> Result<Option<Self>, RateLimitError> {
        match (per_second, burst) {
            (None, None) => Ok(None),
            (Some(per_second), _) if per_second < 0.0 => Ok(None),
            (per_second, burst) => {
                Self::new(per_second.unwrap_or(Self::PER_SECOND), burst.unwrap_or(Self::BURST)).map(Some)
            }
        }
    }
}

/// The bucket; time comes in as an argument.
#[derive(Debug)]
pub(super) struct TokenBucket {
    limit: RateLimit,
    /// At most the burst.
    tokens: f64,
    as_of: Instant,
}

impl TokenBucket {
    /// A full one.
    pub(super) fn new(limit: RateLimit, now: Instant) -> Self {
        Self { limit, tokens: f64::from(limit.burst), as_of: now }
    }

    /// Takes a token, or returns the time until there is one.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let filled = now.saturating_duration_since(self.as_of).as_secs_f64() * self.limit.per_second;
        self.tokens = (self.tokens + filled).min(f64::from(self.limit.burst));
        self.as_of = self.as_of.max(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let missing = (1.0 - self.tokens) / self.limit.per_second;
        // Timers count milliseconds: one that is too short by less would only be set again.
        Err(Duration::try_from_secs_f64(missing).unwrap_or(Duration::MAX).max(Duration::from_millis(1)))
    }
}

#[cfg(test)]
mod tests;
