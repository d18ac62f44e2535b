//! Settings from the environment.

use anyhow::Context as _;

/// A whole number from `least` to `most`.
pub(crate) fn number(name: &str, otherwise: usize, least: usize, most: usize) -> anyhow::Result<usize> {
    let Ok(text) = std::env::var(name) else { return Ok(otherwise) };
    let number = text.trim().parse().ok().filter(|number| (least..=most).contains(number));
    number.with_context(|| format!("{name}={text:?} is no number from {least} to {most}"))
}
