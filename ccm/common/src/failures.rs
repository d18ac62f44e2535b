//! Sentences of `NodeNetwork.spec.failedChecks`. An agent writes them for people; the controller uses their subjects, which their
//! beginnings show. Pure.

use std::net::IpAddr;

use windlass_api::NodeCheck;
use windlass_vrrp::Family;

/// Beginning of the sentence about a check of an Announcement; the check and the reason follow.
const CHECK: &str = "the check ";
/// Beginning of the sentence about a Service's health check; the port and the reason follow.
const NODE_PORT: &str = "the health check on node port ";
/// End of the sentence about further checks of Announcements, which are not listed one by one; it follows their number.
const FURTHER_CHECKS: &str = " further checks of Announcements";
/// End of the sentence about further health checks of Services; it follows their number.
const FURTHER_NODE_PORTS: &str = " further health checks";
/// Beginning of the sentence about forwarding by the kernel; family, interface and reason follow.
const FORWARDING: &str = "forwarding of ";
/// Beginning of the sentence about a key that the node does not have; its number and the reason follow.
const KEY: &str = "VRRP key ";

/// A failed check of an Announcement.
pub fn of_check(check: &NodeCheck, reason: &str) -> String {
    format!("{CHECK}{}: {reason}", check.action)
}

/// Returns the sentence about this many further checks of Announcements, which are not listed one by one.
pub fn of_further_checks(count: usize) -> String {
    format!("{count}{FURTHER_CHECKS}")
}

/// A failed health check of a Service.
pub fn of_node_port(port: u16, reason: &str) -> String {
    format!("{NODE_PORT}{port}: {reason}")
}

/// Returns the sentence about this many further health checks of Services, which are not listed one by one.
pub fn of_further_node_ports(count: usize) -> String {
    format!("{count}{FURTHER_NODE_PORTS}")
}

/// A key that the node does not have.
pub fn of_key(id: u8, reason: &str) -> String {
    format!("{KEY}{id}: {reason}")
}

/// Forwarding of a family from an interface.
pub fn of_forwarding(family: Family, interface: &str, reason: &str) -> String {
    format!("{FORWARDING}{} from {interface}: {reason}", name(family))
}

fn name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

/// Returns false if what fails is of the other family than that of an address.
pub fn concerns_address(subject: &str, address: IpAddr) -> bool {
    match subject.strip_prefix(FORWARDING) {
        Some(rest) => rest.starts_with(name(Family::of(address))),
        None => true,
    }
}

/// Returns the subjects of the sentences that matter to virtual routers. Those about Services do not: their endpoints show the
/// controller the same.
pub fn that_matter(sentences: &[String]) -> impl Iterator<Item = &str> {
    let of_service = |said: &str| said.starts_with(NODE_PORT) || said.ends_with(FURTHER_NODE_PORTS);
    sentences.iter().map(String::as_str).filter(move |said| !of_service(said)).map(subject)
}

/// Returns a sentence without its reason.
fn subject(said: &str) -> &str {
    said.split_once(": ").map_or(said, |(subject, _)| subject)
}

/// Returns true if a failure, one of those [`that_matter`], concerns virtual routers whose nodes make these checks and sign with this
/// key. A failure of none of these kinds is of the node, and concerns them all.
pub fn concerns(subject: &str, checks: &[NodeCheck], key: Option<u8>) -> bool {
    if let Some(action) = subject.strip_prefix(CHECK) {
        checks.iter().any(|check| check.action.to_string() == action)
    } else if subject.ends_with(FURTHER_CHECKS) {
        !checks.is_empty()
    } else if let Some(id) = subject.strip_prefix(KEY) {
        key.is_some_and(|key| key.to_string() == id)
    } else {
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(port: u16) -> NodeCheck {
        serde_json::from_value(json!({ "httpGet": { "host": "2001:db8::1", "port": port } }))
            .expect("a check")
    }

    #[test]
    fn forwarding_concerns_addresses_of_its_family() {
        let said = of_forwarding(Family::V6, "eth0", "net/ipv6/conf/all/forwarding is 0");
        let [v4, v6] = ["192.0.2.1", "2001:db8::1"].map(|address| address.parse().expect("an address"));
        let sentences = [said, "kube-proxy: no answer".to_owned()];
        let told: Vec<[bool; 2]> =
            that_matter(&sentences).map(|it| [v4, v6].map(|address| concerns_address(it, address))).collect();
        assert_eq!(told, [[false, true], [true, true]]);
    }

    #[test]
    fn what_fails_concerns_those_virtual_routers_that_depend_on_it() {
        let (own, other) = ([check(80)], [check(81)]);
        let rows: [(String, &[NodeCheck], Option<u8>, bool); 12] = [
            ("kube-proxy: it is not well: 503".to_owned(), &[], None, true),
            ("something that a later version says".to_owned(), &[], None, true),
            (of_check(&own[0], "refused: no route"), &own, None, true),
            (of_check(&own[0], "refused"), &other, None, false),
            (of_check(&own[0], "refused"), &[], None, false),
            (of_further_checks(3), &own, None, true),
            (of_further_checks(3), &[], None, false),
            (of_node_port(30000, "503: no endpoints"), &own, Some(7), false),
            (of_further_node_ports(3), &own, Some(7), false),
            (of_key(7, "this node does not have it"), &own, Some(7), true),
            (of_key(7, "this node does not have it"), &own, Some(77), false),
            (of_key(7, "this node does not have it"), &own, None, false),
        ];
        for (said, checks, key, expected) in rows {
            let sentences = [said.clone()];
            let concerns = that_matter(&sentences).any(|subject| concerns(subject, checks, key));
            assert_eq!(concerns, expected, "{said}");
        }
    }
}
