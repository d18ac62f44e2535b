//! Status of an Announcement. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;
use windlass_api::{AnnouncementStatus, CONDITION_APPLIED, applied};
use windlass_ccm::conditions::DesiredCondition;
use windlass_common::bridges::is_of_pods;

use super::ParsedAnnouncement;

/// Number of virtual IPs that are named. The number of further ones is left out: each new one would change the condition.
const NAMED: usize = 3;

/// Findings about one Announcement, from virtual IPs and nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AnnouncementFindings {
    /// Virtual IPs that it applies to.
    pub(crate) virtual_ips: usize,
    /// Virtual IPs that it selects but another Announcement applies to, with that Announcement's name.
    pub(crate) overruled: BTreeMap<IpAddr, String>,
    /// Virtual IPs that it applies to, but whose virtual router differs from its settings, because no VRID is left for another one.
    pub(crate) left_behind: BTreeSet<IpAddr>,
    /// Like `left_behind`, but because nodes do not have the key that is to sign.
    pub(crate) without_key: BTreeSet<IpAddr>,
    /// Agents have reported their nodes' networks, and it leaves none of them.
    pub(crate) is_without_node: bool,
}

/// The status: as `current` where nothing changed, so that nothing is written. Conditions that are not ours stay.
pub(crate) fn status(
    current: Option<&AnnouncementStatus>,
    generation: Option<i64>,
    announcement: &ParsedAnnouncement,
    findings: &AnnouncementFindings,
    now: Timestamp,
) -> AnnouncementStatus {
    let (holds, reason, message) = condition(announcement, findings);
    let mut conditions = current.map_or_else(Vec::new, |status| status.conditions.clone());
    DesiredCondition { type_: CONDITION_APPLIED, holds, reason, message, generation }
        .set_in(&mut conditions, now);
    let virtual_ips = i64::try_from(findings.virtual_ips).unwrap_or(i64::MAX);
    AnnouncementStatus { virtual_ips, conditions }
}

fn condition(
    announcement: &ParsedAnnouncement,
    findings: &AnnouncementFindings,
) -> (bool, &'static str, String) {
    let AnnouncementFindings { virtual_ips, overruled, left_behind, without_key, is_without_node } = findings;
    let (first, last) = (announcement.vrrp.vrids.start(), announcement.vrrp.vrids.end());
    if !announcement.problems.is_empty() {
        let message = format!(
            "{}; until that is put right it applies to no further virtual IP",
            announcement.problems.join("; ")
        );
        (false, applied::INVALID_SELECTOR, message)
    } else if *is_without_node {
        (false, applied::NO_NODE, without_node(announcement))
    } else if let Some(authentication) = announcement.vrrp.authentication
        && !without_key.is_empty()
    {
        let id = authentication.key_id;
        let message = format!(
            "{} still announced as before: not each of their nodes has key {id} (spec.vrrpKeys of its NodeNetwork); add an entry \
             {id} to Secret windlass-vrrp-keys in the namespace of the agents",
            named(without_key.iter().map(ToString::to_string))
        );
        (false, applied::NO_KEY, message)
    } else if !left_behind.is_empty() {
        let message = format!(
            "{} still announced as before: no VRID from {first} to {last} is left on their segment; extend \
             spec.vrrp.vridRange, or free some",
            named(left_behind.iter().map(ToString::to_string))
        );
        (false, applied::NO_VRID, message)
    } else if !overruled.is_empty() {
        let other = |(address, by): (&IpAddr, &String)| format!("{address} (Announcement {by:?})");
        let message = format!(
            "another Announcement comes first for {}: give this one a lower spec.priority, or let it select less",
            named(overruled.iter().map(other))
        );
        (false, applied::OVERRULED, message)
    } else if *virtual_ips == 0 {
        (true, applied::NOTHING_SELECTED, "it selects no virtual IP yet".to_owned())
    } else {
        (true, applied::ALL, "Windlass announces each virtual IP it selects with its settings".to_owned())
    }
}

/// Returns the reason that no node is left, as far as the names of interfaces show it.
fn without_node(announcement: &ParsedAnnouncement) -> String {
    let of_pods: Vec<&String> = announcement.interfaces.iter().filter(|name| is_of_pods(name)).collect();
    let hint = if !of_pods.is_empty() {
        let names = named(of_pods.into_iter().cloned());
        format!(
            ". Agents report {names} only if it is a network card, a VLAN or a bond: other interfaces whose names begin so are of pod \
             networks. Rename the interface (a .link file of systemd-udev), or name that of the LAN"
        )
    } else if announcement.names_interfaces() {
        format!(
            ". An interface without an address of its own is not used: give {} an address of the subnet on the nodes",
            announcement.interfaces()
        )
    } else {
        String::new()
    };
    format!(
        "no node with a Windlass agent that spec.nodeSelectors selects has a subnet on an interface that spec.interfaces \
         and spec.excludeInterfaces leave: correct these{hint}"
    )
}

/// The first of them, and whether there are more.
fn named(all: impl ExactSizeIterator<Item = String>) -> String {
    let more = if all.len() > NAMED { " and others" } else { "" };
    format!("{}{more}", all.take(NAMED).collect::<Vec<_>>().join(", "))
}
