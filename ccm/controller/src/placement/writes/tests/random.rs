//! Whatever happens to a cluster, what was worked out before and is kept changes nothing of what is written.

use std::net::IpAddr;

use proptest::prelude::*;
use windlass_api::{ExternalTrafficPolicy, ServiceRef, VirtualIPSpec, virtual_ip_name};

use super::*;

#[derive(Debug, Clone)]
enum Step {
    /// As the provider makes it, or, not `placed`, without a virtual router.
    Vip {
        last: u8,
        service: u8,
        placed: bool,
    },
    VipGone(u8),
    /// As it comes about, or, not `tidy`, by a hand that leaves it in its virtual router.
    Quarantine {
        last: u8,
        tidy: bool,
    },
    /// A hand names a virtual router that is not there.
    Astray(u8),
    /// An agent says so.
    Announced(u8),
    Node {
        number: u8,
        stable: bool,
    },
    NodeGone(u8),
    Network {
        number: u8,
        subnet: u8,
    },
    NetworkGone(u8),
    Service {
        number: u8,
        restricted: bool,
    },
    ServiceGone(u8),
    Pool {
        large: bool,
    },
    /// Of the pool, or of some Services.
    Announcement {
        of_pool: bool,
        interval_ms: u32,
        is_unicast: bool,
    },
    AnnouncementGone {
        of_pool: bool,
    },
    /// A hand turns its ranking round.
    Router(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let last = || 1..24u8;
    prop_oneof![
        8 => (last(), 0..6u8, prop::bool::weighted(0.8))
            .prop_map(|(last, service, placed)| Step::Vip { last, service, placed }),
        2 => last().prop_map(Step::VipGone),
        2 => (last(), any::<bool>()).prop_map(|(last, tidy)| Step::Quarantine { last, tidy }),
        1 => last().prop_map(Step::Astray),
        2 => last().prop_map(Step::Announced),
        3 => (1..6u8, any::<bool>()).prop_map(|(number, stable)| Step::Node { number, stable }),
        1 => (1..6u8).prop_map(Step::NodeGone),
        2 => (1..6u8, 0..3u8).prop_map(|(number, subnet)| Step::Network { number, subnet }),
        1 => (1..6u8).prop_map(Step::NetworkGone),
        3 => (0..6u8, any::<bool>()).prop_map(|(number, restricted)| Step::Service { number, restricted }),
        1 => (0..6u8).prop_map(Step::ServiceGone),
        1 => any::<bool>().prop_map(|large| Step::Pool { large }),
        2 => (any::<bool>(), prop_oneof![Just(100u32), Just(200)], any::<bool>())
            .prop_map(|(of_pool, interval_ms, is_unicast)| Step::Announcement { of_pool, interval_ms, is_unicast }),
        1 => any::<bool>().prop_map(|of_pool| Step::AnnouncementGone { of_pool }),
        1 => (0..3usize).prop_map(Step::Router),
    ]
}

const fn announcement_name(of_pool: bool) -> &'static str {
    if of_pool { "of-pool" } else { "of-services" }
}

struct Cluster {
    shared: SharedState,
    version: u64,
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self { shared: shared("p", &[]), version: 1000 };
        for number in 1..4 {
            cluster.take(&Step::Node { number, stable: true });
            cluster.take(&Step::Network { number, subnet: 0 });
        }
        cluster.take(&Step::Pool { large: true });
        cluster
    }

    /// An object, newer than all before.
    fn object<K: serde::de::DeserializeOwned>(&mut self, mut body: Value) -> K {
        self.version += 1;
        body["metadata"]["resourceVersion"] = json!(self.version.to_string());
        serde_json::from_value(body).expect("an object")
    }

    fn changed<K>(&mut self, known: &K, change: impl FnOnce(&mut Value)) -> K
    where
        K: serde::Serialize + serde::de::DeserializeOwned,
    {
        let mut body = serde_json::to_value(known).expect("JSON");
        change(&mut body);
        self.object(body)
    }

    fn known_vip(&self, last: u8) -> Option<Arc<VirtualIP>> {
        self.shared.state().stores.vip(address(last)).cloned()
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Vip { last, service, placed } => self.make_vip(last, service, placed),
            Step::VipGone(last) => {
                if let Some(vip) = self.known_vip(last) {
                    self.shared.forget(&*vip);
                }
            }
            Step::Quarantine { last, tidy } => {
                if let Some(vip) = self.known_vip(last) {
                    let quarantine = json!({ "reason": "Released", "until": NOW, "message": "m" });
                    let vip = self.changed(&*vip, |vip| {
                        vip["spec"]["quarantine"] = quarantine;
                        if tidy {
                            vip["spec"]["virtualRouter"] = Value::Null;
                        }
                    });
                    self.shared.learn::<VirtualIP>(vip);
                }
            }
            Step::Astray(last) => {
                if let Some(vip) = self.known_vip(last) {
                    let vip = self.changed(&*vip, |vip| vip["spec"]["virtualRouter"] = json!("nowhere"));
                    self.shared.learn::<VirtualIP>(vip);
                }
            }
            Step::Announced(last) => {
                if let Some(vip) = self.known_vip(last) {
                    let said = json!({ "type": "Announced", "status": "True", "reason": "R", "message": "m",
                                       "lastTransitionTime": NOW });
                    let vip = self.changed(&*vip, |vip| vip["status"] = json!({ "conditions": [said] }));
                    self.shared.learn::<VirtualIP>(vip);
                }
            }
            Step::Node { number, stable } => {
                let label = "node.kubernetes.io/exclude-from-external-load-balancers";
                let labels = if stable { json!({}) } else { json!({ label: "" }) };
                let name = format!("n{number}");
                let node = self.object(json!({ "metadata": { "name": name, "labels": labels } }));
                self.shared.learn::<Node>(node);
            }
            Step::NodeGone(number) => {
                let known = self.shared.state().stores.nodes.get(&format!("n{number}"));
                if let Some(node) = known {
                    self.shared.forget(&*node);
                }
            }
            Step::Network { number, subnet } => {
                let (v4, name) = (format!("192.0.{}.{number}/24", 2 + subnet), format!("n{number}"));
                let interface = json!({ "name": "eth0", "mac": "02:00:00:00:00:01", "addresses": [v4] });
                let body = custom("NodeNetwork", &name, 0, &json!({ "interfaces": [interface] }));
                let network = self.object(body);
                self.shared.learn::<NodeNetwork>(network);
            }
            Step::NetworkGone(number) => {
                let known = self.shared.state().stores.networks.get(&format!("n{number}")).cloned();
                if let Some(network) = known {
                    self.shared.forget(&*network);
                }
            }
            Step::Service { number, restricted } => {
                let name = format!("s{number}");
                let mut spec = json!({ "type": "LoadBalancer", "ports": [{ "port": 80 }] });
                if restricted {
                    spec["loadBalancerSourceRanges"] = json!(["198.51.100.0/24"]);
                }
                let labels = json!({ "restricted": restricted.to_string() });
                let metadata = json!({ "namespace": "ns", "name": name, "uid": name, "labels": labels });
                let service = self.object(json!({ "metadata": metadata, "spec": spec }));
                self.shared.learn::<Service>(service);
            }
            Step::ServiceGone(number) => {
                let known = self.shared.state().stores.services.get(&format!("ns/s{number}"));
                // Not by its UID, by which it could not come back.
                let gone = known.map(|known| Service {
                    metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                        uid: None,
                        ..known.metadata.clone()
                    },
                    ..Service::default()
                });
                if let Some(service) = gone {
                    self.shared.forget(&service);
                }
            }
            Step::Pool { large } => {
                let addresses = if large { "192.0.2.0/24" } else { "192.0.2.8/29" };
                let known = self.shared.state().stores.pools.get("p").cloned().expect("the pool");
                let pool = self.changed(&*known, |pool| {
                    pool["spec"]["addresses"] = json!([addresses]);
                });
                self.shared.learn::<VirtualIPPool>(pool);
            }
            Step::Announcement { of_pool, interval_ms, is_unicast } => {
                let transport = if is_unicast { "Unicast" } else { "Multicast" };
                let vrrp =
                    json!({ "advertisementIntervalMilliseconds": interval_ms, "transport": transport });
                let services = json!([{ "matchLabels": { "restricted": "true" } }]);
                let spec = if of_pool {
                    json!({ "pools": ["p"], "vrrp": vrrp })
                } else {
                    json!({ "priority": 1, "serviceSelectors": services, "vrrp": vrrp })
                };
                let body = custom("Announcement", announcement_name(of_pool), 0, &spec);
                let announcement = self.object::<Announcement>(body);
                self.shared.learn(announcement);
            }
            Step::AnnouncementGone { of_pool } => {
                let name = announcement_name(of_pool);
                let known = self.shared.state().stores.announcements.get(name).cloned();
                if let Some(announcement) = known {
                    self.shared.forget(&*announcement);
                }
            }
            Step::Router(index) => {
                let known = self.shared.state().stores.routers.iter().nth(index).cloned();
                if let Some(router) = known {
                    let mut turned = (*router).clone();
                    turned.spec.nodes.reverse();
                    let turned = self.changed(&turned, |_| {});
                    self.shared.learn::<VirtualRouter>(turned);
                }
            }
        }
    }

    fn make_vip(&mut self, last: u8, service: u8, placed: bool) {
        if self.known_vip(last).is_some() {
            return;
        }
        let name = format!("s{service}");
        let holder = ServiceRef { namespace: "ns".into(), name: name.clone(), uid: name };
        let spec = VirtualIPSpec {
            on_address_in_use: windlass_api::OnAddressInUse::Refuse,
            load_sharing: None,
            address: address(last),
            pool: "p".into(),
            owners: vec![holder.clone()],
            former_pools: Vec::new(),
            virtual_router: None,
            announcement: None,
            sources: Vec::new(),
            ports: Vec::new(),
            external_traffic_policy: ExternalTrafficPolicy::Cluster,
            health_check_node_ports: Vec::new(),
            quarantine: None,
        };
        let mut vip = VirtualIP::new(&virtual_ip_name(spec.address), spec);
        {
            let ClusterState { stores, allocation, placement, .. } = &mut *self.shared.state();
            allocation.traffic_of(stores, vip.spec.address, &vip.spec.owners).set(&mut vip.spec);
            if placed {
                vip.spec.virtual_router = placement.router_for_new_vip(stores, allocation, &holder, &vip);
            }
        }
        vip.metadata.uid = Some(format!("vip-{}", self.version));
        let vip = self.changed(&vip, |_| {});
        self.shared.learn::<VirtualIP>(vip);
    }

    /// Lets the planner write until nothing is to be written; a plan may take some passes.
    fn settle(&mut self) {
        for _ in 0..8 {
            assert!(self.shared.review_pools(), "all is known");
            let writes = PlannedWrites::new(&self.shared).expect("all is known");
            {
                let mut state = self.shared.state();
                state.placement.forget_topology();
                state.allocation.findings_changed();
            }
            let anew = PlannedWrites::new(&self.shared).expect("all is known");
            assert_eq!(writes, anew, "with what was worked out before, and without");
            let writes: Vec<PlannedWrite> = writes.stages().into_iter().flatten().collect();
            if writes.is_empty() {
                self.check_carriers();
                return;
            }
            for write in &writes {
                carry_out(&self.shared, write);
                // As the API server numbers what is written.
                self.version += 1;
            }
        }
    }
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

impl Cluster {
    /// With nothing left to write, a VIP names a virtual router that is there, and one in quarantine none.
    fn check_carriers(&self) {
        let state = self.shared.state();
        for vip in state.stores.vips.iter() {
            let named = vip.spec.virtual_router.as_ref();
            let allowed =
                |router: &String| vip.spec.quarantine.is_none() && state.stores.routers.get(router).is_some();
            assert!(named.is_none_or(allowed), "{:?}", vip.spec);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))] // 36 ms each

    #[test]
    fn what_was_worked_out_before_changes_nothing_of_what_is_written(steps in prop::collection::vec(step(), 1..40)) {
        let mut cluster = Cluster::new();
        cluster.settle();
        for step in &steps {
            cluster.take(step);
            cluster.settle();
        }
    }
}
