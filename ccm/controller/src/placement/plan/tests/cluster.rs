//! A cluster, as tests change and plan it.

use super::*;

/// A cluster that is changed and planned in turn, the plan being carried out each time.
#[derive(Default)]
pub(super) struct Cluster {
    /// But for the topology.
    pub(super) input: PlanInput,
    pub(super) nodes: BTreeMap<String, NodeTraits>,
    pub(super) networks: Vec<Arc<NodeNetwork>>,
    pub(super) announcements: Vec<Arc<Announcement>>,
    /// The node that is Active for a router, by its name.
    pub(super) active: BTreeMap<String, String>,
    /// Nodes that hear nothing new.
    pub(super) cut_off: BTreeSet<String>,
    /// Virtual routers that were made so far.
    pub(super) made: usize,
    /// Virtual routers are made at [`PlanInput::now`]; else at no time that counts.
    pub(super) has_clock: bool,
}

/// The plan by itself, without a word on how it came about or how long it is good.
pub(super) fn planned(input: &PlanInput) -> PlacementPlan<'static> {
    let PlacementPlan {
        routers,
        preferred_nodes,
        vrid_changes,
        routers_by_vip,
        left_behind,
        without_key,
        unplaced,
        without_candidates,
        shared_loads,
        uneven,
        not_shared,
        look_again: _,
    } = plan(input);
    let routers = routers.into_iter().map(|(name, spec)| (name, Cow::Owned(spec.into_owned()))).collect();
    let look_again = None;
    PlacementPlan {
        routers,
        preferred_nodes,
        vrid_changes,
        routers_by_vip,
        left_behind,
        without_key,
        unplaced,
        without_candidates,
        shared_loads,
        uneven,
        not_shared,
        look_again,
    }
}

impl Cluster {
    /// `(node, interface, addresses)`, all healthy; without an Announcement.
    pub(super) fn new(nodes: &[(&str, &str, &[&str])]) -> Self {
        let mut cluster = Self::default();
        for (node, interface, addresses) in nodes {
            cluster.node(node, true);
            cluster.network(node, interface, addresses);
        }
        cluster
    }

    /// `n1` to `n<count>` on `eth0` of 192.0.2.0/24.
    pub(super) fn of(count: u8) -> Self {
        let mut cluster = Self::new(&[]);
        for number in 1..=count {
            cluster.node(&format!("n{number}"), true);
            cluster.network(&format!("n{number}"), "eth0", &[&format!("192.0.2.{number}/24")]);
        }
        cluster
    }

    pub(super) fn node(&mut self, name: &str, healthy: bool) {
        self.nodes.entry(name.into()).or_default().is_stable = healthy;
    }

    pub(super) fn cordon(&mut self, name: &str, is_unschedulable: bool) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.is_unschedulable = is_unschedulable;
        }
    }

    pub(super) fn label(&mut self, node: &str, label: &str, value: &str) {
        self.nodes.get_mut(node).expect(node).labels.insert(label.into(), value.into());
    }

    /// Makes or changes an Announcement; those with names that come first in the alphabet are the older ones.
    pub(super) fn announce(&mut self, name: &str, spec: AnnouncementSpec) {
        self.announcements.retain(|one| one.name_any() != name);
        self.announcements.push(Arc::new(Announcement::new(name, spec)));
    }

    /// Addresses of the pool `wan` are announced on these interfaces.
    pub(super) fn announce_wan_on(&mut self, interfaces: &[&str]) {
        let interfaces = interfaces.iter().map(|&name| name.to_owned()).collect();
        let pools = vec!["wan".to_owned()];
        self.announce("wan", AnnouncementSpec { pools, interfaces, ..AnnouncementSpec::default() });
    }

    /// The node's agent has this key from now on.
    pub(super) fn give_key(&mut self, node: &str, id: u8) {
        let network = self.networks.iter_mut().find(|network| network.name_any() == node).expect(node);
        Arc::make_mut(network).spec.vrrp_keys.push(id);
    }

    /// The node's agent obeys these from now on.
    pub(super) fn capabilities(&mut self, node: &str, capabilities: &[Capability]) {
        for network in self.networks.iter_mut().filter(|network| network.name_any() == node) {
            Arc::make_mut(network).spec.capabilities = capabilities.to_vec();
        }
    }

    /// Only the nodes keep out who may not use the VIP, or everybody may.
    pub(super) fn restrict(&mut self, address: &str, is_restricted: bool) {
        for vip in self.input.vips.iter_mut().filter(|vip| vip.spec.address.to_string() == address) {
            let port = RestrictedPort { protocol: PortProtocol::Tcp, port: 80 };
            let allowed = vec!["192.0.2.0/24".to_owned()];
            let sources = PortSources { ports: vec![port], allowed, by_kube_proxy: false };
            Arc::make_mut(vip).spec.sources = if is_restricted { vec![sources] } else { Vec::new() };
        }
    }

    pub(super) fn network(&mut self, node: &str, interface: &str, addresses: &[&str]) {
        self.networks(node, &[(interface, addresses)], &[]);
    }

    /// With a link-local address, `fe80::` and the digits of the node's name, on interfaces that have an IPv6 address.
    pub(super) fn networks(&mut self, node: &str, interfaces: &[(&str, &[&str])], foreign: &[(&str, u8)]) {
        let interfaces = interfaces.iter().map(|(name, addresses)| InterfaceInfo {
            name: (*name).into(),
            mac: "02:00:00:00:00:01".into(),
            addresses: addresses.iter().map(|&address| address.into()).collect(),
            link_local: addresses.iter().any(|address| address.contains(':')).then(|| {
                format!("fe80::{}", node.trim_matches(char::is_alphabetic)).parse().expect("address")
            }),
            isolated: false,
            mtu: None,
        });
        let foreign_routers = foreign.iter().map(|(interface, vrid)| ForeignRouter {
            interface: (*interface).into(),
            vrid: *vrid,
            source: format!("198.51.100.{vrid}").parse().expect("address"),
            version: 3,
        });
        let spec = NodeNetworkSpec {
            agent_version: "t".into(),
            capabilities: vec![Capability::SourceRanges, Capability::LoadSharing],
            interfaces: interfaces.collect(),
            foreign_routers: foreign_routers.collect(),
            ..NodeNetworkSpec::default()
        };
        self.networks.retain(|network| network.name_any() != node);
        self.networks.push(Arc::new(NodeNetwork::new(node, spec)));
    }

    pub(super) fn vip(&mut self, address: &str) {
        self.vip_of("p", address);
    }

    pub(super) fn vip_of(&mut self, pool: &str, address: &str) {
        self.vip_for(pool, address, &[address]);
    }

    /// Owned by these Services.
    pub(super) fn vip_for(&mut self, pool: &str, address: &str, services: &[&str]) {
        let owner =
            |name: &&str| ServiceRef { namespace: "ns".into(), name: (*name).into(), uid: (*name).into() };
        let spec = VirtualIPSpec {
            on_address_in_use: windlass_api::OnAddressInUse::Refuse,
            load_sharing: None,
            address: address.parse().expect(address),
            pool: pool.into(),
            owners: services.iter().map(owner).collect(),
            former_pools: Vec::new(),
            virtual_router: None,
            announcement: None,
            sources: Vec::new(),
            ports: vec![RestrictedPort { protocol: PortProtocol::Tcp, port: 80 }],
            external_traffic_policy: ExternalTrafficPolicy::Cluster,
            health_check_node_ports: Vec::new(),
            quarantine: None,
        };
        self.input.vips.push(Arc::new(VirtualIP::new(&virtual_ip_name(spec.address), spec)));
    }

    pub(super) fn remove_vip(&mut self, address: &str) {
        self.input.vips.retain(|vip| vip.spec.address.to_string() != address);
        self.input.serving.remove(&address.parse().expect(address));
    }

    /// The Services of the VIP get this policy.
    pub(super) fn policy(&mut self, address: &str, policy: ExternalTrafficPolicy) {
        for vip in self.input.vips.iter_mut().filter(|vip| vip.spec.address.to_string() == address) {
            Arc::make_mut(vip).spec.external_traffic_policy = policy;
        }
    }

    /// These nodes have endpoints of the VIP's Services, whose policy is `Local`.
    pub(super) fn endpoints(&mut self, address: &str, nodes: &[(&str, EndpointState)]) {
        self.policy(address, ExternalTrafficPolicy::Local);
        let ready = |state| usize::from(state == EndpointState::Ready);
        let node = |(name, state): &(&str, _)| {
            ((*name).to_owned(), NodeEndpoints { state: *state, ready: ready(*state) })
        };
        self.input.serving.insert(address.parse().expect(address), nodes.iter().map(node).collect());
    }

    pub(super) fn quarantine(&mut self, address: &str) {
        let until = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH);
        for vip in self.input.vips.iter_mut().filter(|vip| vip.spec.address.to_string() == address) {
            let quarantine = Quarantine {
                reason: QuarantineReason::Released,
                until: until.clone(),
                message: String::new(),
            };
            Arc::make_mut(vip).spec.quarantine = Some(quarantine);
        }
    }

    pub(super) fn input(&self) -> PlanInput {
        let announcements = Announcements::new(self.announcements.iter());
        let topology = Arc::new(Topology::new(&self.nodes, self.networks.clone(), &announcements));
        let service = Requester { namespace: "ns".into(), ..Requester::default() };
        let selected = self.input.vips.iter().map(|vip| {
            let VirtualIPSpec { address, pool, announcement, .. } = &vip.spec;
            (*address, announcements.select(pool, Some(&service), announcement.as_deref()))
        });
        let selected = selected.collect();
        let announcements = Arc::new(announcements);
        let routers = self.input.routers.iter().map(|router| {
            let mut router = VirtualRouter::clone(router);
            router.status = self.active.get(&router.name_any()).map(|node| VirtualRouterStatus {
                active_node: Some(node.clone()),
                ..VirtualRouterStatus::default()
            });
            Arc::new(router)
        });
        let routers = if self.active.is_empty() { self.input.routers.clone() } else { routers.collect() };
        PlanInput { announcements, selected, routers, topology, ..self.input.clone() }
    }

    /// Plans, carries the plan out, and checks that planning again changes nothing. Only Announcements may need another turn, when a
    /// router is left with VIPs of another one than before, and nodes that join, when all have heard of them.
    pub(super) fn plan(&mut self) -> PlacementPlan<'static> {
        let mut plan = self.carry_out();
        for _ in 0..3 {
            let some_join = self.hear();
            if self.announcements.is_empty() && !some_join || planned(&self.input()) == plan {
                break;
            }
            plan = self.carry_out();
        }
        assert_eq!(planned(&self.input()), plan, "a plan carried out is planned again as it is");
        plan
    }

    /// The nodes hear of the virtual routers as they are, and tell so. Whether a node joins one.
    pub(super) fn hear(&mut self) -> bool {
        let joined = |router: &&Arc<VirtualRouter>| router.spec.nodes.iter().any(|node| node.joining);
        let known = self.input.routers.iter().filter(joined).map(|router| KnownRouter {
            name: router.name_any(),
            generation: router.metadata.generation.unwrap_or_default(),
        });
        let known: Vec<KnownRouter> = known.collect();
        for network in &mut self.networks {
            if !self.cut_off.contains(&network.name_any()) {
                Arc::make_mut(network).spec.known_routers.clone_from(&known);
            }
        }
        !known.is_empty()
    }

    pub(super) fn carry_out(&mut self) -> PlacementPlan<'static> {
        let input = self.input();
        let plan = planned(&input);
        for old in &input.routers {
            let fixed = |spec: &VirtualRouterSpec| (spec.transport, spec.authentication);
            if let Some(new) = plan.routers.get(&old.name_any()) {
                assert_eq!(fixed(&old.spec), fixed(new), "{} changes while it runs", old.name_any());
            }
        }
        self.input.routers =
            plan.routers.iter().map(|(name, spec)| self.written(name, spec, &plan)).collect();
        self.active.retain(|router, _| plan.routers.contains_key(router));
        for vip in &mut self.input.vips {
            let router = plan.routers_by_vip.get(&vip.name_any()).cloned();
            let spec = &mut Arc::make_mut(vip).spec;
            spec.virtual_router = router;
            spec.announcement = input.selected[&spec.address].applied.clone();
            spec.load_sharing = plan.shared_loads.get(&spec.address).cloned();
        }
        let sharing = Arc::make_mut(&mut self.input.sharing);
        sharing.observe(&self.input.vips, self.input.now);
        sharing.set_uneven(&plan.uneven, self.input.now);
        plan
    }

    /// A virtual router as the API server has it once this is written.
    pub(super) fn written(
        &mut self,
        name: &str,
        spec: &VirtualRouterSpec,
        plan: &PlacementPlan<'_>,
    ) -> Arc<VirtualRouter> {
        let mut router = VirtualRouter::new(name, spec.clone());
        let wanted = plan.preferred_nodes.get(name).map(String::as_str);
        router.metadata.annotations = moved::preferring(wanted);
        if let Some(number) = plan.vrid_changes.get(name) {
            let annotations = router.metadata.annotations.get_or_insert_default();
            annotations.insert(ANNOTATION_VRID_CHANGES.to_owned(), number.to_string());
        }
        if let Some(old) = self.input.routers.iter().find(|old| old.name_any() == name) {
            let generation = old.metadata.generation.unwrap_or_default() + i64::from(old.spec != *spec);
            (router.metadata.generation, router.metadata.uid) = (Some(generation), old.metadata.uid.clone());
            router.metadata.creation_timestamp.clone_from(&old.metadata.creation_timestamp);
        } else {
            self.made += 1;
            (router.metadata.generation, router.metadata.uid) = (Some(1), Some(format!("uid-{}", self.made)));
            let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.input.now);
            router.metadata.creation_timestamp = self.has_clock.then_some(now);
        }
        Arc::new(router)
    }

    /// The router that a VIP of a new Service is made with.
    pub(super) fn router_for_new_vip(&self, address: &str) -> Option<String> {
        self.router_for_new_vip_beside(address, &BTreeSet::new())
    }

    /// The same where the Service has VIPs of the other family, for which these nodes are first.
    pub(super) fn router_for_new_vip_beside(
        &self,
        address: &str,
        partners: &BTreeSet<String>,
    ) -> Option<String> {
        let mut new = Self::default();
        new.vip(address);
        let vip = &new.input.vips[0];
        let input = PlanInput { vips: Vec::new(), ..self.input() };
        let service = Requester { namespace: "ns".into(), ..Requester::default() };
        let applied = input.announcements.select(&vip.spec.pool, Some(&service), None).applied;
        let announcement = input.announcements.get_or_none(applied.as_deref());
        let is_shared = announcement.load_sharing == windlass_api::LoadSharing::All;
        if input.topology.need(&vip.spec, is_shared) != Need::Nothing {
            return None;
        }
        let segment = input.topology.segment(vip.spec.address, announcement)?;
        let offer = ReadyRouters::new(&input, segment, announcement.name.as_deref());
        let carried = self.input.vips.iter().filter_map(|vip| vip.spec.virtual_router.as_deref());
        let vips = |router: &str| carried.clone().filter(|carrier| *carrier == router).count();
        offer.next(partners, vips).map(str::to_owned)
    }

    pub(super) fn router(&mut self, address: &str) -> Option<String> {
        let name = virtual_ip_name(address.parse().expect(address));
        self.plan().routers_by_vip.get(&name).cloned()
    }
}

/// The node that is preferred for the VIP.
pub(super) fn preferred<'a>(plan: &'a PlacementPlan<'_>, address: &str) -> &'a str {
    let name = virtual_ip_name(address.parse().expect(address));
    ranking::preferred(&plan.routers[&plan.routers_by_vip[&name]]).expect("a node")
}

/// Names and priorities, in order.
pub(super) fn ranking(plan: &PlacementPlan<'_>, router: &str) -> Vec<(String, u8)> {
    plan.routers[router].nodes.iter().map(|node| (node.name.clone(), node.priority)).collect()
}

pub(super) fn names(plan: &PlacementPlan<'_>, router: &str) -> Vec<String> {
    ranking(plan, router).into_iter().map(|(name, _)| name).collect()
}
