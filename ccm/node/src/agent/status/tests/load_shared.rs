use serde_json::json;

use super::super::super::service_proxy::ServiceProxy;
use super::super::super::sharing::Unshared;
use super::super::super::sharing::finding::Obstacle;
use super::*;

/// Nodes n1 to n3 with addresses of their numbers serve like this.
fn shared_vip(lots: &str, shown: &[Condition]) -> Arc<VirtualIP> {
    let node = |(key, n): (&str, u8)| json!({ "key": key, "name": format!("n{n}"), "address": format!("192.0.2.1{n}") });
    let nodes: Vec<_> = [("a", 1), ("b", 2), ("c", 3)].map(node).into();
    let mut vip = vip(Some("n1"), shown.to_vec());
    let load = json!({ "nodes": nodes, "lots": lots.repeat(120 / lots.len()) });
    Arc::make_mut(&mut vip).spec.load_sharing = serde_json::from_value(load).unwrap();
    vip
}

fn conditions(sharing: &SharingState, vip: &Arc<VirtualIP>) -> Vec<Condition> {
    let assignments = [assignment(&["192.0.2.12"])];
    let activities = [(assignments[0].key().unwrap(), activity(1))].into();
    let active = ActiveRouter::among(&assignments, &activities);
    let (context, routers) =
        (NodeContext { sharing, ..context(Instant::now()) }, [] as [Arc<VirtualRouter>; 0]);
    let patches =
        patches(context, &active, &[], &routers, std::slice::from_ref(vip), &Reported::default(), 100);
    match &patches[..] {
        [] => vip.status.clone().unwrap().conditions,
        [patch] => serde_json::from_value(patch.body["status"]["conditions"].clone()).unwrap(),
        more => panic!("{more:?}"),
    }
}

fn addresses<const N: usize>(nodes: [u8; N]) -> std::collections::BTreeSet<IpAddr> {
    nodes.map(|n| IpAddr::from([192, 0, 2, 10 + n])).into()
}

#[test]
fn the_director_tells_the_shares_and_the_nodes_that_are_out_or_the_reason_why_it_does_not_share() {
    let in_force = || SharingState { in_force: [ADDRESS].into(), ..SharingState::default() };
    let unshared = Unshared { address: ADDRESS, reason: "NoRoom", why: "it is full".to_owned() };
    let rows = [
        ("abc", in_force(), "True", "Shared", "n1 40, n2 40, n3 40 of 120 lots"),
        (
            "abc",
            SharingState { silent: addresses([2]), ..in_force() },
            "True",
            "Shared",
            "n1 40, n2 40, n3 40 of 120 lots; n2 does not answer: n1 and n3 have its lots",
        ),
        (
            "abb",
            SharingState { silent: addresses([1, 3]), returning: addresses([2]), ..in_force() },
            "True",
            "Shared",
            "n1 40, n2 80 of 120 lots; n1 does not answer: the node that announces the address has its lots; \
             n2 has just returned: the node that announces the address has its lots",
        ),
        (
            "ab",
            SharingState { unknown: addresses([2]), without_mark: addresses([3]), ..in_force() },
            "True",
            "Shared",
            "n1 60, n2 60 of 120 lots; n2 never answered: the node that announces the address has its lots; \
             connections that began on n3 end when their lot moves: no mark is left",
        ),
        (
            "abc",
            SharingState { filtered: addresses([2]), silent: addresses([3]), ..in_force() },
            "False",
            "SourcesFiltered",
            "Packets with a client's source address do not pass from node n1 to n2, or those from 192.0.2.200 do not pass back: \
             other nodes have the lots of n2. Let the nodes' ports of the hypervisor or switch send from any source address \
             (no port security, source guard or spoofing filter), also by UDP port 10113",
        ),
        (
            "b",
            SharingState { filtered: addresses([2]), ..in_force() },
            "False",
            "SourcesFiltered",
            "Packets with a client's source address do not pass from node n1 to n2, or those from 192.0.2.200 do not pass back: \
             no other node has lots, so they stay. Let the nodes' ports of the hypervisor or switch send from any source address \
             (no port security, source guard or spoofing filter), also by UDP port 10113",
        ),
        ("b", in_force(), "False", "OneServer", "Node n2 alone serves 192.0.2.200"),
        (
            "ab",
            SharingState { unshared: vec![unshared], ..in_force() },
            "False",
            "NoRoom",
            "Node n1 alone serves 192.0.2.200: it is full",
        ),
        (
            "ab",
            SharingState { obstacle: Obstacle::look(None, ServiceProxy::Ipvs, None), ..in_force() },
            "False",
            "ServiceProxy",
            "Node n1 cannot share addresses: sharing needs kube-proxy in nftables or iptables \
             mode, and the agent found 'ipvs': let the agent ask kube-proxy (--kube-proxy-metrics-address)",
        ),
    ];
    let announced = [condition("Announced", "True")];
    for (lots, sharing, status, reason, message) in rows {
        let told = conditions(&sharing, &shared_vip(lots, &announced));
        let [_, load] = &told[..] else { panic!("{told:?}") };
        let written =
            (load.type_.as_str(), load.status.as_str(), load.reason.as_str(), load.message.as_str());
        assert_eq!(written, ("LoadShared", status, reason, message));
        assert_eq!(conditions(&sharing, &shared_vip(lots, &told)), told, "it is told once");
    }
}

#[test]
fn nothing_is_told_before_packets_are_directed_and_what_no_node_shares_any_more_is_not_called_shared() {
    let (announced, none) = (condition("Announced", "True"), SharingState::default());
    let before = [announced.clone()];
    assert_eq!(conditions(&none, &shared_vip("ab", &before)), before);
    for (status, kept) in [("True", 1), ("False", 2)] {
        let shown = [announced.clone(), condition("LoadShared", status)];
        let told = conditions(&none, &vip(Some("n1"), shown.to_vec()));
        assert_eq!(told.len(), kept, "{status}: {told:?}");
    }
}
