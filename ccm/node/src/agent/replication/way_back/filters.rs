//! Interfaces that drop packets whose source is reached by another one: `net.ipv4.conf.*.rp_filter`. There is none for IPv6.

use std::collections::BTreeSet;
use std::fs;

const SETTINGS: &str = "/proc/sys/net/ipv4/conf";
/// The strict reverse path of RFC 3704; 2 is the feasible one, 0 none.
const STRICT: u8 = 1;

/// Interfaces with a strict filter.
#[derive(Debug, Default)]
pub(super) struct Filters(BTreeSet<String>);

impl Filters {
    /// Reads the filters of these interfaces. An unreadable one counts as open: it only names a cause.
    pub(super) fn read<'a>(interfaces: impl IntoIterator<Item = &'a str>) -> Self {
        let setting = |name: &str| fs::read_to_string(format!("{SETTINGS}/{name}/rp_filter")).ok();
        let of_all = setting("all");
        let is_strict = |interface: &&str| is_strict(of_all.as_deref(), setting(interface).as_deref());
        Self(interfaces.into_iter().filter(is_strict).map(str::to_owned).collect())
    }

    /// Returns true if this interface's filter is strict.
    pub(super) fn is_strict(&self, interface: &str) -> bool {
        self.0.contains(interface)
    }

    #[cfg(test)]
    pub(super) fn strict(interfaces: &[&str]) -> Self {
        Self(interfaces.iter().map(|interface| (*interface).to_owned()).collect())
    }
}

/// Returns true if the greater of the two, which the kernel uses, is strict.
fn is_strict(of_all: Option<&str>, own: Option<&str>) -> bool {
    let number = |text: Option<&str>| text.and_then(|text| text.trim().parse::<u8>().ok());
    number(of_all).max(number(own)) == Some(STRICT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greater_of_an_interfaces_filter_and_that_of_all_counts() {
        let rows = [
            (Some("0\n"), Some("0\n"), false),
            (Some("0\n"), Some("1\n"), true),
            (Some("0\n"), Some("2\n"), false),
            (Some("1\n"), Some("0\n"), true),
            (Some("1\n"), Some("2\n"), false),
            (Some("2\n"), Some("1\n"), false),
            (Some("1\n"), None, true),
            (None, None, false),
            (Some("nonsense"), Some(""), false),
        ];
        for (all, own, expected) in rows {
            assert_eq!(is_strict(all, own), expected, "{all:?} {own:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_open() {
        let filters = Filters::read(["no-such-interface-0"]);
        let of_all = fs::read_to_string(format!("{SETTINGS}/all/rp_filter")).ok();
        assert_eq!(filters.is_strict("no-such-interface-0"), is_strict(of_all.as_deref(), None));
    }
}
