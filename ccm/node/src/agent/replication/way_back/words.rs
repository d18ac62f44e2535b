//! Messages about backends whose answers do not arrive. Pure.

use std::collections::BTreeMap;

use super::{Astray, Cause, WayBack};

/// Largest number of ranges named per cause.
const NAMED: usize = 3;

/// Describes the answers that do not arrive by the segment's interface: ranges, causes and remedies.
pub(crate) fn of(astray: &[Astray], interface: &str) -> String {
    let mut by_cause: BTreeMap<(Cause, &str), Vec<String>> = BTreeMap::new();
    for one in astray {
        by_cause.entry((one.cause, one.interface.as_str())).or_default().push(one.range.to_string());
    }
    let sentence = |((cause, by), ranges): ((Cause, &str), Vec<String>)| {
        let named = ranges.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = match ranges.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{named}{more} (by {by}): {}", because(cause, by, interface))
    };
    by_cause.into_iter().map(sentence).collect::<Vec<_>>().join("; ")
}

/// Describes the return path of backends' answers to a segment, for the log.
pub(super) fn of_way(way: &WayBack, interface: &str) -> String {
    match way {
        WayBack::NotLooked => format!("it is not known whether answers of backends arrive by {interface}"),
        WayBack::Arrives(astray) if astray.is_empty() => {
            format!("answers of backends arrive by {interface}")
        }
        WayBack::Arrives(astray) => {
            format!("answers of backends arrive by {interface}, but for {}", of(astray, interface))
        }
        WayBack::Overlay { interface: tunnel } => format!(
            "pods are reached by {tunnel}, beyond which no host can be asked whether answers arrive by {interface}"
        ),
        WayBack::Lost { why } => format!("answers of backends do not arrive by {interface}: {why}"),
        WayBack::Unknown { reason } => format!("cannot read the routes to backends: {reason}; retrying"),
    }
}

fn because(cause: Cause, by: &str, interface: &str) -> String {
    match cause {
        Cause::FilterHere => format!(
            "answers do not arrive by {interface}, whose reverse-path filter is strict \
             (net.ipv4.conf.{}.rp_filter or that of all is 1): set 2 for {interface} and {by} on all nodes",
            as_setting(interface)
        ),
        Cause::Elsewhere => format!(
            "answers do not arrive by {interface}: look on the nodes there for a strict reverse-path filter \
             (net.ipv4.conf.{}.rp_filter or that of all is 1; set 2), and for what keeps pods' addresses off the LAN",
            as_setting(by)
        ),
        Cause::Silence => "no node there has answered an echo request yet".to_owned(),
        Cause::NobodyToAsk => "no node can be asked there whether answers arrive".to_owned(),
    }
}

/// Returns the interface as `sysctl` names it.
fn as_setting(interface: &str) -> String {
    interface.replace('.', "/")
}
