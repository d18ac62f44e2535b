//! Settings of the benchmarks, from the environment.

use std::{env, fmt::Display, ops::RangeInclusive, str::FromStr};

use anyhow::{Context as _, bail};
use clap::ValueEnum;

/// Returns a number within `range`; `otherwise` without the setting.
pub(crate) fn number<T>(setting: &str, otherwise: T, range: &RangeInclusive<T>) -> anyhow::Result<T>
where
    T: FromStr + PartialOrd + Display,
{
    match env::var(setting) {
        Ok(text) => parsed(&text, range).with_context(|| format!("{setting}={text:?}")),
        Err(_) => Ok(otherwise),
    }
}

/// Returns numbers within `range`, which spaces or commas separate; `otherwise` without the setting.
pub(crate) fn numbers<T>(setting: &str, otherwise: &[T], range: &RangeInclusive<T>) -> anyhow::Result<Vec<T>>
where
    T: FromStr + PartialOrd + Display + Copy,
{
    let Ok(text) = env::var(setting) else { return Ok(otherwise.to_vec()) };
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    words
        .map(|word| parsed(word, range))
        .collect::<Result<_, _>>()
        .with_context(|| format!("{setting}={text:?}"))
}

/// Returns the values that a setting names by their keys, as `FAULTS="cable drain"`, in the order of their type; `otherwise` without
/// the setting.
pub(crate) fn some_of<T: ValueEnum>(setting: &str, otherwise: &[T]) -> anyhow::Result<Vec<T>> {
    match env::var(setting) {
        Ok(text) => named(&text).with_context(|| format!("{setting}={text:?}")),
        Err(_) => Ok(otherwise.to_vec()),
    }
}

/// Key of a value: its name in settings.
pub(crate) fn key(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Keys of all values of a type.
pub(crate) fn keys<T: ValueEnum>() -> Vec<String> {
    T::value_variants().iter().map(key).collect()
}

fn parsed<T: FromStr + PartialOrd + Display>(text: &str, range: &RangeInclusive<T>) -> anyhow::Result<T> {
    let number = text.trim().parse().ok().filter(|number| range.contains(number));
    number.with_context(|| format!("{text:?} is no number from {} to {}", range.start(), range.end()))
}

fn named<T: ValueEnum>(text: &str) -> anyhow::Result<Vec<T>> {
    let names: Vec<&str> = text.split_whitespace().collect();
    let keys = keys::<T>();
    if let Some(unknown) = names.iter().find(|name| !keys.iter().any(|key| key == *name)) {
        bail!("{unknown} is none of {}", keys.join(", "));
    }
    Ok(T::value_variants().iter().filter(|one| names.contains(&key(*one).as_str())).cloned().collect())
}

#[cfg(test)]
mod tests {
    use windlass_e2e::ProxyMode;

    use super::*;

    #[test]
    fn a_setting_names_some_of_all_and_nothing_else() {
        let modes = named::<ProxyMode>;
        assert_eq!(modes(" iptables nftables ").unwrap(), [ProxyMode::Nftables, ProxyMode::Iptables]);
        assert_eq!(modes("iptables").unwrap(), [ProxyMode::Iptables]);
        let error = modes("iptables ipvs").unwrap_err().to_string();
        assert_eq!(error, "ipvs is none of nftables, iptables");
    }

    #[test]
    fn a_number_is_within_its_range() {
        assert_eq!(parsed(" 3 ", &(1..=5)).unwrap(), 3);
        for wrong in ["0", "6", "three", ""] {
            let error = parsed(wrong, &(1..=5)).unwrap_err().to_string();
            assert_eq!(error, format!("{wrong:?} is no number from 1 to 5"));
        }
    }
}
