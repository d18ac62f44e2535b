//! An explanation for people. Pure.

use jiff::Timestamp;
use windlass_api::SharedBy;

use super::address::{AddressStory, RouterStory};
use super::service::ServiceStory;
use super::sharing::{ClientStory, Server, SharingStory};
use super::{EventStory, Explanation};
use crate::inspect::table::{age, aligned, indented};

impl Explanation {
    /// For people.
    pub(in crate::inspect) fn text(&self, now: Timestamp) -> String {
        let mut text = Vec::new();
        text.extend(self.problems.iter().map(|problem| format!("{problem}\n  do: {}\n", problem.remedy)));
        for service in &self.services {
            text.push(format!("\nService {}\n{}", service.service, facts(&of_service(service, now))));
        }
        for address in &self.addresses {
            text.push(format!("\nAddress {}\n{}", address.address, facts(&of_address(address, now))));
            if let Some(sharing) = &address.sharing {
                text.push(sharing_text(sharing, now));
            }
            if let Some(client) = &address.client {
                text.push(facts(&vec![("client", client_words(client))]));
            }
            if let Some(router) = &address.router {
                text.push(router_text(router, now));
            }
        }
        if let Some(mode) = &self.kube_proxy_mode {
            text.push(format!("\nkube-proxy: mode {mode}, by its settings in kube-system\n"));
        }
        if !self.events.is_empty() {
            let line = |event: &EventStory| {
                let when = event.time.as_ref().map(|time| format!("{} ago", age(time.0, now)));
                vec![
                    when.unwrap_or_default(),
                    event.service.clone(),
                    event.reason.clone(),
                    event.message.clone(),
                ]
            };
            let lines: Vec<Vec<String>> = self.events.iter().map(line).collect();
            text.push(format!("\nEvents\n{}", indented(&aligned(&lines))));
        }
        for unread in &self.unread {
            text.push(format!("\nNot known: {unread}\n"));
        }
        text.concat().trim_start().to_owned()
    }
}

/// Names of facts, and what is so.
type Facts = Vec<(&'static str, String)>;

fn of_service(service: &ServiceStory, now: Timestamp) -> Facts {
    let ServiceStory { asks_for, shows, condition, pools, .. } = service;
    let none = || "no address".to_owned();
    let mut facts = vec![
        ("asks for", asks_for.join("; ")),
        ("shows", if shows.is_empty() { none() } else { shows.join(", ") }),
    ];
    facts.push((
        "says",
        condition.as_ref().map_or_else(
            || "nothing: no controller has looked at it".to_owned(),
            |one| {
                let since = age(one.last_transition_time.0, now);
                format!("AddressAllocated {} {} since {since}: {}", one.status, one.reason, one.message)
            },
        ),
    ));
    facts.extend(service.rule.iter().map(|rule| ("rule", rule.clone())));
    for (place, pool) in pools.iter().enumerate() {
        let usable = if pool.usable { "may be used" } else { "not used" };
        let words =
            format!("{}. {} (priority {}) {usable}: {}", place + 1, pool.pool, pool.priority, pool.why);
        facts.push((if place == 0 { "pools" } else { "" }, words));
    }
    facts
}

fn of_address(story: &AddressStory, now: Timestamp) -> Facts {
    let mut facts = vec![("pool", story.pool_says.clone())];
    let Some(vip) = &story.virtual_ip else { return facts };
    facts.push(("VirtualIP", vip.clone()));
    let sharing = if story.services.len() > 1 { " (they share it)" } else { "" };
    facts.push(("Services", format!("{}{sharing}", story.services.join(", "))));
    if let Some(quarantine) = &story.quarantine {
        let words = format!("{:?} until {}: {}", quarantine.reason, quarantine.until.0, quarantine.message);
        facts.push(("quarantine", words.trim_end_matches(": ").to_owned()));
    }
    let announcement = story.announcement.as_deref().unwrap_or("none: the defaults");
    facts.push(("Announcement", announcement.to_owned()));
    facts.push((
        "announced",
        match (&story.active_node, &story.announced) {
            (Some(node), Some(one)) => {
                format!("by node {node}; by some node since {}", age(one.last_transition_time.0, now))
            }
            (Some(node), None) => format!("by node {node}"),
            (None, Some(one)) => {
                format!("no, {} since {}: {}", one.reason, age(one.last_transition_time.0, now), one.message)
            }
            (None, None) => "no, and no component has reported a reason".to_owned(),
        },
    ));
    facts.push(("traffic", format!("externalTrafficPolicy: {}", story.traffic_policy)));
    for (place, words) in story.guard.iter().enumerate() {
        facts.push((if place == 0 { "guard" } else { "" }, words.clone()));
    }
    if !story.connections.is_empty() {
        facts.push(("connections", story.connections.clone()));
    }
    facts.extend(story.conflict.iter().map(|words| ("conflict", words.clone())));
    facts.extend(story.hosts.iter().map(|words| ("other host", words.clone())));
    facts
}

fn sharing_text(sharing: &SharingStory, now: Timestamp) -> String {
    let reported = sharing.condition.as_ref().map_or_else(
        || "no agent has reported yet whether several nodes serve it".to_owned(),
        |one| {
            let since = age(one.last_transition_time.0, now);
            format!("LoadShared {} {} since {since}: {}", one.status, one.reason, one.message)
        },
    );
    let mut of_sharing = vec![("shared", reported)];
    let by = |by| match by {
        SharedBy::Connection => "connections of one client go to several nodes",
        SharedBy::Client => "all connections of a client go to one node (sessionAffinity)",
    };
    of_sharing.extend(sharing.by.map(|one| ("", by(one).to_owned())));
    if sharing.servers.iter().any(|server| !server.former_lots.is_empty()) {
        let words =
            "former servers keep the connections that they have, for an hour from the move of the lot";
        of_sharing.push(("", words.to_owned()));
    }
    let mut lines = vec![["SERVER", "LOTS", "SHARE", "FORMER LOTS"].map(str::to_owned).to_vec()];
    lines.extend(sharing.servers.iter().map(|Server { node, lots, percent, former_lots }| {
        vec![node.clone(), lots.to_string(), format!("{percent}%"), ranges(former_lots)]
    }));
    let table = if sharing.servers.is_empty() { String::new() } else { aligned(&lines) };
    format!("{}{}", facts(&of_sharing), indented(&indented(&table)))
}

/// Numbers in ascending order, as `0-3, 7`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next).filter_map(|run| match run {
        [] => None,
        [one] => Some(one.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    runs.collect::<Vec<String>>().join(", ")
}

fn client_words(ClientStory { lot, node, former, sctp }: &ClientStory) -> String {
    let served = match (node, lot) {
        (Some(node), Some(lot)) => format!("in lot {lot}, which node {node} serves"),
        (Some(node), None) => format!("node {node} gets its packets, as those of all clients"),
        (None, _) => {
            "each of its connections is in a lot of its own: name its port, too (--client ADDRESS:PORT)"
                .to_owned()
        }
    };
    let former = (!former.is_empty()).then(|| {
        format!("connections that began on {} before the lot moved stay there", former.join(" or "))
    });
    let sctp = sctp.as_ref().map(|node| format!("SCTP: node {node}"));
    [Some(served), former, sctp].into_iter().flatten().collect::<Vec<String>>().join("; ")
}

fn router_text(router: &RouterStory, now: Timestamp) -> String {
    let RouterStory { name, vrid, segment, advertisement_interval_milliseconds, .. } = router;
    let active = router.active_node.as_deref().unwrap_or("no node");
    let since = router
        .active_since
        .as_ref()
        .map_or_else(String::new, |since| format!(" since {}", age(since.0, now)));
    let mut of_router = vec![
        (
            "router",
            format!(
                "{name}: VRID {vrid} on {segment}, an advert each {advertisement_interval_milliseconds} ms"
            ),
        ),
        ("Active", format!("{active}{since}, {} moves since it was made", router.moves)),
    ];
    of_router.extend(router.not_the_first.iter().map(|words| ("", words.clone())));
    of_router.extend(router.strangers.iter().map(|words| ("VRID used by", words.clone())));
    let mut lines = vec![["", "NODE", "PRIORITY", "CLASS", "INTERFACE", "WHY"].map(str::to_owned).to_vec()];
    lines.extend(router.ranking.iter().map(|place| {
        vec![
            if place.active { "*" } else { "" }.to_owned(),
            place.node.clone(),
            place.priority.to_string(),
            place.class.to_owned(),
            place.interface.clone(),
            place.why.join("; "),
        ]
    }));
    format!("{}{}", facts(&of_router), indented(&indented(&aligned(&lines))))
}

fn facts(facts: &Facts) -> String {
    let lines: Vec<Vec<String>> =
        facts.iter().map(|(name, words)| vec![(*name).to_owned(), words.clone()]).collect();
    indented(&aligned(&lines))
}
