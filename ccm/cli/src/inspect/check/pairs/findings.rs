//! Findings from the nodes' reports on received packets. Pure.

use std::collections::BTreeMap;

use ipnet::IpNet;
use windlass_common::listing::first_of;

use super::{Report, Tried, Way};
use crate::inspect::check::Fact;
use crate::inspect::problems::Problem;

/// Remedy where nothing of protocol 112 arrives.
const LET_PASS: &str = "let IP protocol 112 pass between the nodes, to 224.0.0.18, ff02::12 and by unicast: firewalls of both hosts, security groups \
                        of the virtualisation";
/// Remedy where only multicast does not arrive.
const MULTICAST: &str = "have the switch flood 224.0.0.18 and ff02::12, or give its IGMP and MLD snooping a querier; Windlass makes up for it by unicast \
                         meanwhile, and Announcements with transport: Unicast need no multicast (docs/announcements.md)";

/// Way by which a packet of one node reached another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Passage {
    Multicast,
    UnicastAlone,
    Nothing,
}

/// Names of address families, with their ways.
const FAMILIES: [(&str, Way, Way); 2] =
    [("IPv4", Way::MulticastV4, Way::UnicastV4), ("IPv6", Way::MulticastV6, Way::UnicastV6)];

/// Returns the problems between nodes. A packet that does not arrive is a problem of its receiver.
pub(in crate::inspect::check) fn findings(tried: &[Tried]) -> Vec<Problem> {
    let mut findings = Vec::new();
    for Tried { node, report } in tried {
        match report {
            Err(why) => findings.push(Problem::warning("Node", node, "NotTried").says(
                format!("whether VRRP passes between {node} and others was not tried: {why}"),
                "put that right and check again; --image names an image of Windlass that the node has or can pull",
            )),
            Ok(report) if !report.failed.is_empty() => {
                let failed: Vec<&String> = report.failed.iter().collect();
                findings.push(Problem::error("Node", node, "NotSent").says(
                    format!("on {node}: {}", first_of(failed.iter(), 2)),
                    "see the host's own firewall and routes",
                ));
            }
            Ok(_) => {}
        }
    }
    let mut untold: BTreeMap<(&str, &str, Passage), Vec<&str>> = BTreeMap::new();
    for (sender, receiver, family, passage) in passages(tried) {
        if passage != Passage::Multicast {
            untold.entry((receiver, family, passage)).or_default().push(sender);
        }
    }
    findings.extend(untold.into_iter().map(|((receiver, family, passage), senders)| {
        let senders = first_of(senders.iter(), 3);
        if passage == Passage::Nothing {
            let message = format!("nothing of VRRP that {senders} sent arrived at {receiver} by {family}, neither by multicast nor by unicast");
            Problem::error("Node", receiver, "VRRPBlocked").says(message, LET_PASS)
        } else {
            let message = format!("multicast of VRRP that {senders} sent did not arrive at {receiver} by {family}, though unicast did");
            Problem::warning("Node", receiver, "WithoutMulticast").says(message, MULTICAST)
        }
    }));
    findings
}

/// Returns the facts about the trial: its nodes, and the directions in which multicast passes.
pub(in crate::inspect::check) fn facts(tried: &[Tried]) -> Vec<Fact> {
    let nodes = tried.iter().filter(|one| one.report.is_ok()).count();
    let said = |(family, ..): (&'static str, Way, Way)| {
        let of_family: Vec<Passage> =
            passages(tried).filter(|(_, _, one, _)| *one == family).map(|(.., passage)| passage).collect();
        let heard = of_family.iter().filter(|passage| **passage == Passage::Multicast).count();
        (!of_family.is_empty()).then(|| format!("{heard} of {} directions by {family}", of_family.len()))
    };
    let said: Vec<String> = FAMILIES.into_iter().filter_map(said).collect();
    let said = if said.is_empty() {
        "no two of them have a network in common".to_owned()
    } else {
        format!("multicast of VRRP passes in {}", said.join(", "))
    };
    vec![Fact { name: "Pairs", value: format!("{nodes} of {} nodes tried it: {said}", tried.len()) }]
}

/// Sender, receiver, family and how it came, of every two nodes that have a network in common.
fn passages(tried: &[Tried]) -> impl Iterator<Item = (&str, &str, &'static str, Passage)> {
    let reports = || tried.iter().filter_map(|one| Some((one.node.as_str(), one.report.as_ref().ok()?)));
    let pairs = reports().flat_map(move |sender| {
        reports().filter(move |receiver| receiver.0 != sender.0).map(move |receiver| (sender, receiver))
    });
    pairs.flat_map(|((sender, from), (receiver, to))| {
        FAMILIES.into_iter().filter_map(move |(family, multicast, unicast)| {
            let is_of_family = |network: &&IpNet| network.addr().is_ipv4() == (family == "IPv4");
            let have_common = have_common(from, to, is_of_family);
            let passage = match to.heard.get(sender) {
                Some(ways) if ways.contains(&multicast) => Passage::Multicast,
                Some(ways) if ways.contains(&unicast) => Passage::UnicastAlone,
                Some(_) | None => Passage::Nothing,
            };
            have_common.then_some((sender, receiver, family, passage))
        })
    })
}

fn have_common(from: &Report, to: &Report, is_of_family: impl Fn(&&IpNet) -> bool) -> bool {
    to.networks
        .iter()
        .filter(&is_of_family)
        .any(|network| from.networks.iter().any(|other| network.contains(&other.addr())))
}
