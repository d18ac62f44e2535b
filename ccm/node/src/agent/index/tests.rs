use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const NODE: &str = "n1";
const ADDRESSES: [&str; 9] = [
    "192.0.2.200",
    "192.0.2.201",
    "192.0.2.202",
    "192.0.2.203",
    // A node's own.
    "192.0.2.12",
    "2001:db8::200",
    "2001:db8::201",
    // Nobody's.
    "255.255.255.255",
    "fe80::5",
];
const ROUTERS: [&str; 4] = ["a", "b", "c", "d"];

/// A virtual IP: its router, whether it is announced, in quarantine, being deleted, restricted, checked or shared and how, its name.
fn vip(address: usize, router: Option<usize>, state: u8, sources: u8, misnamed: bool) -> Arc<VirtualIP> {
    let text = ADDRESSES[address];
    let name = if misnamed { format!("wrong-{address}") } else { virtual_ip_name(text.parse().unwrap()) };
    let allowed = |range: &str| json!([{ "ports": [{ "protocol": "TCP", "port": 80 }], "allowed": [range] }]);
    let shared = |lots: &str| {
        let nodes = [("a", "n1", "192.0.2.11"), ("b", "n4", "192.0.2.200")];
        let nodes = nodes.map(|(key, name, address)| json!({ "key": key, "name": name, "address": address }));
        json!({ "nodes": nodes, "lots": lots.repeat(120 / lots.len()) })
    };
    let mut object = json!({
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "VirtualIP",
        "metadata": { "name": name },
        "spec": {
            "address": text,
            "pool": "lan",
            "owners": [{ "namespace": "default", "name": "web", "uid": "1" }],
            "virtualRouter": router.map(|router| ROUTERS[router]),
            "sources": match sources { 1 => allowed("10.0.0.0/8"), 2 => allowed("10.1.0.0/16"), _ => json!([]) },
            "onAddressInUse": if sources == 5 { "Claim" } else { "Refuse" },
            "ports": [{ "protocol": "TCP", "port": if sources == 9 { 443 } else { 80 } }],
            "loadSharing": match sources { 6 => shared("ab"), 7 | 9 => shared("abb"), 8 => shared("abc"), _ => json!(null) },
            "healthCheckNodePorts": match sources { 3 | 6 => json!([30000]), 4 | 7 => json!([30000, 30001]), _ => json!([]) },
        },
    });
    match state {
        0 | 1 => {}
        2 | 3 => {
            let announced = json!({
                "type": "Announced", "status": "True", "reason": "Active", "message": "",
                "lastTransitionTime": "2020-01-01T00:00:00Z",
            });
            object["status"] = json!({ "activeNode": "n2", "conditions": [announced] });
        }
        4 => object["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z"),
        _ => {
            object["spec"]["quarantine"] = json!({ "reason": "Released", "until": "2020-01-01T00:00:00Z" });
        }
    }
    Arc::new(serde_json::from_value(object).unwrap())
}

/// A virtual router: its VRID, of which two may have one; its nodes; whether it is IPv6's, or being deleted; its age. The youngest
/// sign with key 1.
fn router(name: usize, vrid: u8, nodes: usize, six: bool, deleted: bool, age: i64) -> Arc<VirtualRouter> {
    let (prefix, own) = if six { ("fe80::", "fe80::11") } else { ("192.0.2.", "192.0.2.11") };
    let ranked = |(rank, node): (u8, &str)| {
        let address = if node == NODE { own.to_owned() } else { format!("{prefix}1{}", &node[1..]) };
        json!({ "name": node, "priority": 200 - rank, "address": address, "interface": "eth0" })
    };
    let nodes: &[&str] = [&["n1", "n2", "n3"], &["n2", "n1"] as &[&str], &["n1"], &["n2", "n3"]][nodes];
    let nodes: Vec<_> = (0..).zip(nodes.iter().copied()).map(ranked).collect();
    let mut router: VirtualRouter = serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "VirtualRouter",
        "metadata": { "name": ROUTERS[name] },
        "spec": { "vrid": vrid, "segment": "x", "advertisementIntervalMilliseconds": 100, "nodes": nodes },
    }))
    .unwrap();
    router.spec.authentication = (age == 12).then_some(windlass_api::Authentication { key_id: 1 });
    let time = |seconds| Some(Time(jiff::Timestamp::constant(seconds, 0)));
    router.metadata.creation_timestamp = time(age);
    router.metadata.deletion_timestamp = time(1).filter(|_| deleted);
    Arc::new(router)
}

fn name<K: kube::ResourceExt>(object: &Arc<K>) -> String {
    object.name_any()
}

/// What happens to the copies.
#[derive(Debug, Clone)]
enum Event {
    Vip(Arc<VirtualIP>),
    NoVip(usize, bool),
    Router(Arc<VirtualRouter>),
    NoRouter(usize),
    /// A list replaces all virtual IPs.
    List(Vec<Arc<VirtualIP>>),
    /// The kernel answers for the first addresses, so many.
    Answered(usize),
    /// This node has key 1, or not.
    Key(bool),
}

fn a_vip() -> impl Strategy<Value = Arc<VirtualIP>> {
    let router = prop_oneof![1 => Just(None), 8 => (0..ROUTERS.len()).prop_map(Some)];
    let misnamed = prop_oneof![30 => Just(false), 1 => Just(true)];
    let sources = prop_oneof![4 => Just(0_u8), 1 => 1..10_u8, 1 => 6..8_u8];
    (0..ADDRESSES.len(), router, 0..6_u8, sources, misnamed).prop_map(
        |(address, router, state, sources, misnamed)| vip(address, router, state, sources, misnamed),
    )
}

fn a_router() -> impl Strategy<Value = Arc<VirtualRouter>> {
    let rarely = || prop_oneof![6 => Just(false), 1 => Just(true)];
    (0..ROUTERS.len(), 64..67_u8, 0..4_usize, rarely(), rarely(), 10..13_i64)
        .prop_map(|(name, vrid, nodes, six, deleted, age)| router(name, vrid, nodes, six, deleted, age))
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        20 => a_vip().prop_map(Event::Vip),
        6 => (0..ADDRESSES.len(), any::<bool>()).prop_map(|(at, misnamed)| Event::NoVip(at, misnamed)),
        4 => a_router().prop_map(Event::Router),
        1 => (0..ROUTERS.len()).prop_map(Event::NoRouter),
        1 => proptest::collection::vec(a_vip(), 0..8).prop_map(Event::List),
        1 => (0..3_usize).prop_map(Event::Answered),
        1 => any::<bool>().prop_map(Event::Key),
    ];
    proptest::collection::vec(event, 1..60)
}

fn answered(count: usize) -> Arc<Answered> {
    let own = ADDRESSES.iter().take(count).map(|text| (text.parse().unwrap(), "eth0".to_owned())).collect();
    Arc::new(Answered { own, ..Answered::default() })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))] // 2.3 ms each

    #[test]
    fn what_is_kept_up_to_date_is_what_is_computed_from_all(
        routers in proptest::collection::vec(a_router(), 1..5),
        events in events(),
        at_once in 1..4_usize,
    ) {
        let mut routers: BTreeMap<String, _> = routers.into_iter().map(|one| (name(&one), one)).collect();
        let mut vips: BTreeMap<String, Arc<VirtualIP>> = BTreeMap::new();
        let mut answer = answered(0);
        let mut keys = Keys::default();
        let whole = |routers: &BTreeMap<String, _>, vips: &BTreeMap<_, _>, answer: &Arc<Answered>, keys: &Keys| {
            let (routers, vips): (Vec<_>, Vec<_>) =
                (routers.values().cloned().collect(), vips.values().cloned().collect());
            let (index, desired) = Index::new(NODE, &routers, &vips, Arc::clone(answer), keys);
            (index, Arc::new(desired))
        };
        let (mut index, mut desired) = whole(&routers, &vips, &answer, &keys);
        for events in events.chunks(at_once) {
            let before = Desired::clone(&desired);
            let (mut changed, mut all) = (BTreeSet::new(), false);
            for event in events {
                match event.clone() {
                    Event::Vip(vip) => {
                        changed.insert(name(&vip));
                        vips.insert(name(&vip), vip);
                    }
                    Event::NoVip(at, misnamed) => {
                        let name = name(&vip(at, None, 0, 0, misnamed));
                        vips.remove(&name);
                        changed.insert(name);
                    }
                    Event::Router(router) => {
                        all |= !index.is_as_known(&name(&router), Some(&router));
                        routers.insert(name(&router), router);
                    }
                    Event::NoRouter(at) => {
                        all |= !index.is_as_known(ROUTERS[at], None);
                        routers.remove(ROUTERS[at]);
                    }
                    Event::List(list) => {
                        vips = list.into_iter().map(|one| (name(&one), one)).collect();
                        all = true;
                    }
                    Event::Answered(count) => {
                        answer = answered(count);
                        all |= !index.is_of(&answer);
                    }
                    Event::Key(has_key) => {
                        keys = if has_key { Keys::of_entries(&[("1", &"k".repeat(32))]) } else { Keys::default() };
                        all = true;
                    }
                }
            }
            let mut part = Part::default();
            let mut take = |name: &String| index.take(name, vips.get(name).map(|vip| &**vip), &mut desired, &mut part);
            let expected = whole(&routers, &vips, &answer, &keys);
            if all || !changed.iter().all(&mut take) {
                (index, desired) = expected;
                continue;
            }
            prop_assert_eq!(&*desired, &*expected.1);
            // Exactly what is another is named.
            let found = |desired: &Desired, router: &str| {
                desired.assignments.iter().find(|one| one.virtual_router == router).cloned()
            };
            for router in ROUTERS {
                let is_same = found(&before, router) == found(&desired, router);
                prop_assert!(is_same || part.routers.contains(router), "{} of {:?}", router, part);
            }
            prop_assert!(before.restricted == desired.restricted || part.restricted);
            prop_assert!(before.shared == desired.shared || part.shared);
            prop_assert_eq!(&before.refused, &desired.refused);
            prop_assert_eq!(&before.problems, &desired.problems);
        }
    }
}

/// Were all of it computed anew each time, the test above would say nothing.
#[test]
fn a_vip_that_joins_is_announced_and_leaves_its_router_is_no_reason_to_look_at_all() {
    let routers = [router(0, 64, 0, false, false, 10), router(1, 65, 0, false, false, 11)];
    let vips = [vip(0, Some(0), 0, 0, false), vip(1, Some(1), 0, 0, false)];
    let (mut index, desired) = Index::new(NODE, &routers, &vips, Arc::default(), &Keys::default());
    let mut desired = Arc::new(desired);
    let steps = [
        ("joins", Some(vip(2, Some(0), 0, 0, false)), Some("a")),
        ("is announced", Some(vip(2, Some(0), 2, 0, false)), Some("a")),
        ("is announced still", Some(vip(2, Some(0), 3, 0, false)), None),
        ("is restricted", Some(vip(2, Some(0), 2, 1, false)), None),
        ("is in quarantine", Some(vip(2, Some(0), 5, 1, false)), Some("a")),
        ("is gone", None, None),
        ("is another's", Some(vip(2, Some(3), 0, 0, false)), None),
        ("has a port", Some(vip(2, Some(0), 0, 3, false)), Some("a")),
        ("is shared", Some(vip(2, Some(0), 0, 6, false)), Some("a")),
        ("is shared otherwise", Some(vip(2, Some(0), 0, 7, false)), None),
        ("is shared no more", Some(vip(2, Some(0), 0, 4, false)), Some("a")),
    ];
    for (what, vip, routers) in steps {
        let mut part = Part::default();
        assert!(index.take("192.0.2.202", vip.as_deref(), &mut desired, &mut part), "{what}");
        assert_eq!(part.routers, routers.into_iter().map(str::to_owned).collect(), "{what}");
    }
}
