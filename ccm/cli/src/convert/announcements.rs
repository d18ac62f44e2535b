//! Converts MetalLB's announcement of its pools to `Announcement`s.
//!
//! MetalLB combines all `L2Advertisement`s for an address; Windlass applies one Announcement to it. So all advertisements for the same
//! addresses become one Announcement.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use windlass_api::AnnouncementSpec;

use super::expressions::is_interface;
use super::metallb::{Advertisement, Pool, Protocol};
use super::write::{Place, Writer, object_name};

/// Priority of an Announcement for some Services, where another one is for all of the same pool.
const FIRST: i32 = 50;
/// Maximum length of a name that is made of several, so that a number fits behind it.
const MAX_NAME: usize = 240;

/// Advertisements that are for the same addresses.
struct Group<'a> {
    members: Vec<&'a Advertisement<'a>>,
    /// The names of the `VirtualIPPool`s.
    pools: Vec<&'a str>,
    /// True if another group is for all other Services of these pools.
    first: bool,
}

/// Converts how `pools` were announced; beside each is the name of its `VirtualIPPool`.
pub(super) fn convert(pools: &[(&Pool<'_>, String)], advertisements: &[Advertisement<'_>], writer: &Writer) {
    let layer2: Vec<&Advertisement<'_>> =
        advertisements.iter().filter(|one| one.protocol == Protocol::Layer2).collect();
    for one in layer2.iter().filter(|one| !one.is_open()) {
        for name in one.pools.iter().filter(|name| !pools.iter().any(|(pool, _)| pool.name == **name)) {
            one.place.warn(format!(
                "spec.ipAddressPools names {name:?}, which is none of the converted pools, so no Announcement covers it. Convert \
                 the pool and the advertisement together"
            ));
        }
    }
    for group in groups(pools, &layer2, writer) {
        let place = writer.at(origins(&group.members));
        if let Some(spec) = group.spec(pools.len(), &place) {
            place.announcement(&group.name(), &spec);
        }
    }
}

/// Groups the advertisements that are for the same addresses, without addresses that are announced without an Announcement as MetalLB did.
fn groups<'a>(
    pools: &'a [(&Pool<'_>, String)],
    layer2: &[&'a Advertisement<'a>],
    writer: &Writer,
) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (pool, name) in pools {
        let of_pool = layer2.iter().copied().filter(|one| one.announces(pool));
        let (general, selective): (Vec<_>, Vec<_>) =
            of_pool.partition(|one| one.service_selectors.is_empty());
        if pool.protocol == Some(Protocol::Layer2) || general.iter().any(|one| one.is_open()) {
            continue;
        }
        if general.is_empty() && !selective.is_empty() {
            pool.place.warn(
                "the advertisements of MetalLB announce only Services that their spec.serviceSelectors select; Windlass announces \
                 every Service with an address. Give the VirtualIPPool spec.serviceSelectors",
            );
        }
        let mut of_services: Vec<Vec<&Advertisement<'_>>> = Vec::new();
        for one in selective {
            match of_services
                .iter_mut()
                .find(|group| alike(&group[0].service_selectors, &one.service_selectors))
            {
                Some(group) => group.push(one),
                None => of_services.push(vec![one]),
            }
        }
        if let [_, _, ..] = of_services[..] {
            writer.at(origins(of_services.iter().flatten())).warn(format!(
                "if several of them select the same Service of pool {:?}, MetalLB applies them all, and Windlass applies one. \
                 Make sure that their spec.serviceSelectors select different Services",
                pool.name
            ));
        }
        let first = !general.is_empty();
        let chosen = of_services
            .into_iter()
            .map(|group| (group.into_iter().chain(general.iter().copied()).collect::<Vec<_>>(), first))
            .filter(|(members, first)| *first || !members.iter().any(|one| one.is_open()))
            .chain(first.then(|| (general.clone(), false)));
        for (members, first) in chosen {
            let same = |group: &&mut Group<'_>| {
                group.members.len() == members.len()
                    && group.members.iter().zip(&members).all(|(one, other)| std::ptr::eq(*one, *other))
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.pools.push(name),
                None => groups.push(Group { members, pools: vec![name], first }),
            }
        }
    }
    groups
}

impl Group<'_> {
    fn spec(&self, all_pools: usize, place: &Place<'_>) -> Option<AnnouncementSpec> {
        let node_selectors = union(self.members.iter().map(|one| one.node_selectors.as_slice()));
        let interfaces = union(self.members.iter().map(|one| one.interfaces.as_slice()));
        if !self.is_product(&node_selectors, &interfaces) {
            place.warn(
                "MetalLB applies the spec.interfaces of each only to its own spec.nodeSelectors. Only one Announcement applies \
                 to an address, so the converted one combines all these interfaces with all these nodes. Check that this is \
                 intended",
            );
        }
        let interfaces = existing(interfaces, place)?;
        if interfaces.len() > 1 {
            place.warn(format!(
                "spec.interfaces has {interfaces:?}, and MetalLB announces on each of them; Windlass announces an address in one \
                 subnet, on one interface of each node. Name one interface of each node if the choice matters"
            ));
        }
        // (Those of a group are alike, but for the ones that are for all Services.)
        let service_selectors =
            self.members.first().map(|one| one.service_selectors.clone()).unwrap_or_default();
        let for_all = self.pools.len() == all_pools && self.members.iter().all(|one| one.is_for_all_pools());
        let pools = if for_all { &[] } else { self.pools.as_slice() };
        let default = AnnouncementSpec::default();
        Some(AnnouncementSpec {
            priority: if self.first { FIRST } else { default.priority },
            pools: pools.iter().map(|&pool| pool.to_owned()).collect(),
            service_selectors,
            node_selectors,
            interfaces,
            ..default
        })
    }

    /// Returns true if all of these nodes with all of these interfaces announce no more than the members do, each by itself.
    fn is_product(&self, node_selectors: &[LabelSelector], interfaces: &[String]) -> bool {
        let alike_in_nodes = |one: &&Advertisement<'_>| alike(&one.node_selectors, node_selectors);
        let alike_in_interfaces = |one: &&Advertisement<'_>| alike(&one.interfaces, interfaces);
        self.members.iter().all(alike_in_nodes)
            || self.members.iter().all(alike_in_interfaces)
            || self.members.iter().any(|one| alike_in_nodes(one) && alike_in_interfaces(one))
    }

    /// The names of its members.
    fn name(&self) -> String {
        let of_members: Vec<String> = self.members.iter().filter_map(|one| object_name(&one.name)).collect();
        let joined: String = of_members.join("-").chars().take(MAX_NAME).collect();
        object_name(&joined).unwrap_or_else(|| "metallb".to_owned())
    }
}

/// Returns the `interfaces` that can exist, and reports the others; `None` if some were named and none can exist.
fn existing(interfaces: Vec<String>, place: &Place<'_>) -> Option<Vec<String>> {
    let (good, bad): (Vec<String>, Vec<String>) = interfaces.into_iter().partition(|name| is_interface(name));
    if bad.is_empty() {
        return Some(good);
    }
    let said = format!(
        "spec.interfaces has {bad:?}, which cannot be names of interfaces: a name has 1 to 15 characters without spaces and \
         \"/\""
    );
    if good.is_empty() {
        place.refuse(format!(
            "{said}; correct it. Until then every node with the subnet of its pools announces them"
        ));
        return None;
    }
    place.warn(format!("{said}; left out"));
    Some(good)
}

fn origins<'a>(advertisements: impl IntoIterator<Item = &'a &'a Advertisement<'a>>) -> String {
    advertisements.into_iter().map(|one| one.place.origin()).collect::<Vec<_>>().join(", ")
}

/// All entries of these lists, once each; an empty list among them stands for everything, and so does the result then.
fn union<'a, T: Clone + PartialEq + 'a>(lists: impl Iterator<Item = &'a [T]>) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for list in lists {
        if list.is_empty() {
            return Vec::new();
        }
        for entry in list {
            if !all.contains(entry) {
                all.push(entry.clone());
            }
        }
    }
    all
}

/// Returns true if two lists have the same entries.
fn alike<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.iter().all(|entry| other.contains(entry)) && other.iter().all(|entry| one.contains(entry))
}
