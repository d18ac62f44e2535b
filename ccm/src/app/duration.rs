//! Durations as Go writes them, which is how the flags of every cloud-controller-manager are written: `1m30s`, `300ms`, `0`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// A duration that is read and shown as Go does. Never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Duration);

/// Error for a text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; give numbers with units (h, m, s, ms, us, ns), as 1m30s, 300ms or 0")]
pub struct DurationError {
    reason: String,
}

fn error(reason: impl Into<String>) -> DurationError {
    DurationError { reason: reason.into() }
}

/// Nanoseconds of a unit.
fn unit(name: &str) -> Option<u128> {
    Some(match name {
        "ns" => 1,
        // The micro sign and the Greek letter mu: Go takes both.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// The longest that Go can hold: 2⁶³ - 1 ns, about 292 years.
const MOST: u128 = i64::MAX as u128;

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        if text.starts_with('-') {
            return Err(error("it is negative"));
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest == "0" {
            return Ok(Self(Duration::ZERO));
        }
        if rest.is_empty() {
            return Err(error("it is empty"));
        }
        let mut total: u128 = 0;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at(end);
            let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            rest = after;
            if name.is_empty() {
                return Err(error(format!("{number} has no unit")));
            }
            let Some(unit) = unit(name) else {
                return Err(error(if number.is_empty() {
                    format!("{name:?} is no number")
                } else {
                    format!("{name:?} is no unit")
                }));
            };
            total = nanoseconds(number, unit).and_then(|part| total.checked_add(part)).unwrap_or(MOST + 1);
            if total > MOST {
                return Err(error(format!("{number}{name} is no number, or the duration is too long")));
            }
        }
        let seconds = u64::try_from(total / 1_000_000_000).unwrap_or(u64::MAX);
        let below = u32::try_from(total % 1_000_000_000).unwrap_or_default();
        Ok(Self(Duration::new(seconds, below)))
    }
}

/// `number` units; `None` if it is no number or far too large. What is below a nanosecond is cut off.
fn nanoseconds(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits = &fraction[..fraction.len().min(15)];
    let scale = 10_u128.pow(u32::try_from(digits.len()).ok()?);
    let part: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    whole.checked_mul(unit)?.checked_add(part * unit / scale)
}

impl fmt::Display for GoDuration {
    /// As Go shows it: `1m30s`, `5m0s`, `300ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        if nanoseconds == 0 {
            return f.write_str("0s");
        }
        for (unit, name) in [(1_000, "ns"), (1_000_000, "µs"), (1_000_000_000, "ms")] {
            if nanoseconds < unit {
                return write!(f, "{}{name}", decimal(nanoseconds, unit / 1_000));
            }
        }
        let minutes = self.0.as_secs() / 60;
        if minutes >= 60 {
            write!(f, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(f, "{}m", minutes % 60)?;
        }
        write!(f, "{}s", decimal(nanoseconds % 60_000_000_000, 1_000_000_000))
    }
}

/// `value / unit` without trailing zeros; `unit` is a power of ten.
fn decimal(value: u128, unit: u128) -> String {
    let (whole, part) = (value / unit, value % unit);
    if part == 0 {
        return whole.to_string();
    }
    let digits = unit.to_string().len() - 1;
    format!("{whole}.{}", format!("{part:0digits$}").trim_end_matches('0'))
}
