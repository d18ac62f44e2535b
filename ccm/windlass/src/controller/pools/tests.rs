use serde_json::json;

use super::*;

fn pool(name: &str, created: &str, addresses: &[&str]) -> Arc<IPPool> {
    let pool = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "IPPool",
        "metadata": { "name": name, "creationTimestamp": created, "generation": 3 },
        "spec": { "addresses": addresses },
    });
    Arc::new(serde_json::from_value(pool).expect("a pool"))
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-02-01T00:00:00Z";

fn reviewed(pools: &[Arc<IPPool>], nodes: &[(&str, &str)]) -> Vec<(String, String, Vec<String>)> {
    let nodes = nodes.iter().map(|(ip, node)| (ip.parse().expect(ip), (*node).to_owned())).collect();
    review(pools, &nodes)
        .into_iter()
        .map(|one| {
            let problems = one.problems.iter().map(|(reason, text)| format!("{reason}: {text}")).collect();
            (one.pool.name, one.pool.addresses.to_string(), problems)
        })
        .collect()
}

#[test]
fn one_bad_piece_stops_neither_the_rest_of_the_pool_nor_the_others() {
    let pools =
        [pool("a", EARLY, &["192.0.2.0/30", "192.0.2.9-192.0.2.5"]), pool("b", LATE, &["203.0.113.0/31"])];
    let expected = [
        (
            "a".into(),
            "192.0.2.0-192.0.2.3".into(),
            vec![
                "InvalidAddresses: address range \"192.0.2.9-192.0.2.5\" ends before it begins: write \
                 192.0.2.5-192.0.2.9"
                    .into(),
            ],
        ),
        ("b".into(), "203.0.113.0-203.0.113.1".into(), vec![]),
    ];
    assert_eq!(reviewed(&pools, &[]), expected);
}

#[test]
fn where_pools_overlap_the_older_one_keeps_the_addresses() {
    let pools = [pool("a", LATE, &["192.0.2.0/29"]), pool("z", EARLY, &["192.0.2.4-192.0.2.20"])];
    let expected = [
        ("z".into(), "192.0.2.4-192.0.2.20".into(), vec![]),
        (
            "a".into(),
            "192.0.2.0-192.0.2.3".into(),
            vec!["Overlap: 192.0.2.4-192.0.2.7 also in the older pool \"z\", which keeps them".into()],
        ),
    ];
    assert_eq!(reviewed(&pools, &[]), expected);
}

#[test]
fn addresses_of_nodes_are_left_out_and_named() {
    let nodes: Vec<_> = (1..=7).map(|n| (format!("192.0.2.{n}"), format!("n{n}"))).collect();
    let nodes: Vec<_> = nodes.iter().map(|(ip, node)| (ip.as_str(), node.as_str())).collect();
    let expected = [(
        "a".into(),
        "192.0.2.0, 192.0.2.8-192.0.2.15".into(),
        vec![
            "NodeAddress: addresses of nodes left out: 192.0.2.1 of node n1, 192.0.2.2 of node n2, 192.0.2.3 of \
             node n3, 192.0.2.4 of node n4, 192.0.2.5 of node n5 and 2 more"
                .into(),
        ],
    )];
    assert_eq!(reviewed(&[pool("a", EARLY, &["192.0.2.0/28"])], &nodes), expected);
}

#[test]
fn node_addresses_are_those_of_the_node_and_of_its_interfaces() {
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": "n1" },
        "status": { "addresses": [
            { "type": "Hostname", "address": "n1" }, { "type": "InternalIP", "address": "192.0.2.11" } ] },
    }))
    .expect("a Node");
    let network: NodeNetwork = serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "NodeNetwork", "metadata": { "name": "n1" },
        "spec": { "interfaces": [ { "name": "eth0", "mac": "02:00:00:00:00:01", "addresses": ["198.51.100.1/24"] } ] },
    }))
    .expect("a NodeNetwork");
    let addresses: Vec<_> = node_addresses([Arc::new(node)], [Arc::new(network)])
        .into_iter()
        .map(|(address, node)| format!("{address} {node}"))
        .collect();
    assert_eq!(addresses, ["192.0.2.11 n1", "198.51.100.1 n1"]);
}

#[test]
fn status_shows_counts_and_keeps_the_time_of_the_last_transition() {
    let at = |text: &str| text.parse::<Timestamp>().expect(text);
    let pool = pool("a", EARLY, &["192.0.2.0/30", "2001:db8::/32"]);
    let one = &review(std::slice::from_ref(&pool), &BTreeMap::new())[0];
    let counts = |family| match family {
        Family::V4 => Counts { total: 4, assigned: 1, ..Counts::default() },
        Family::V6 => Counts { total: 1 << 96, ..Counts::default() },
    };
    let first = status(None, Some(3), one, counts, at(EARLY));
    assert_eq!(first.ipv4, Some(AddressCounts { total: 4, assigned: 1, available: 3, quarantined: 0 }));
    assert_eq!(first.ipv6.as_ref().map(|counts| counts.total), Some(i64::MAX), "more than can be shown");
    assert_eq!(
        (first.conditions[0].status.as_str(), first.conditions[0].reason.as_str()),
        ("True", "Usable")
    );
    assert_eq!(
        status(Some(&first), Some(3), one, counts, at(LATE)),
        first,
        "nothing changed, nothing written"
    );

    let bad =
        Reviewed { problems: vec![("Overlap", "x".into()), ("NodeAddress", "y".into())], ..one.clone() };
    let second = status(Some(&first), Some(3), &bad, counts, at(LATE));
    let ready = &second.conditions[0];
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_str(), ready.message.as_str()),
        ("False", "Overlap", "x; y")
    );
    assert_eq!(ready.last_transition_time, Time(at(LATE)));
}
