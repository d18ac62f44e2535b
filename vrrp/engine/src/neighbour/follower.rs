//! Follows the router handles.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use windlass_kernel::clock;
use windlass_vrrp::Time;

use crate::config::Hold;
use crate::event::Event;
use crate::handle::{Plan, RouterHandle};

use super::groups::Groups;
use super::tracker::{AnnouncementChange, RouterView, SocketsId};
use super::{FollowedRouter, HandleId, Neighbour, id_of, ndp, packet};

impl Neighbour<'_> {
    /// Compares all router handles with what was done.
    pub(super) fn follow_all(&mut self) {
        let handles = self.shared.handles();
        let present: BTreeSet<HandleId> = handles.iter().map(|handle| Arc::as_ptr(handle).addr()).collect();
        let gone: Vec<HandleId> = self.followed.keys().filter(|id| !present.contains(id)).copied().collect();
        let mut changed = !gone.is_empty();
        for id in gone {
            self.schedule.withdraw(id);
            self.forget(id);
        }
        for handle in handles.iter() {
            changed |= self.note_plan(handle);
            self.follow(Arc::as_ptr(handle).addr());
        }
        if changed {
            self.note_groups();
            self.note_vrids();
        }
        self.note_own_macs();
        self.announce_sources();
    }

    /// Compares one router handle with what was done.
    pub(super) fn follow(&mut self, id: HandleId) {
        let now = clock::now();
        let Some(FollowedRouter { handle, plan, tracker, waits_until, unicast, .. }) =
            self.followed.get_mut(&id)
        else {
            return;
        };
        *unicast = handle.unicast();
        let mut active_state = handle.active_state(now);
        *waits_until = handle.prepares_until(now).filter(|_| active_state.active);
        active_state.active &= waits_until.is_none();
        let view = RouterView {
            active_state,
            addresses: &plan.addresses,
            bound: &handle.bound(),
            hold: plan.hold,
            probe: plan.probe,
            unproven: &plan.unproven,
            forced: &plan.forced,
            in_service: &plan.in_service,
            link: plan.link.as_ref().map(id_of),
        };
        let changes = tracker.follow(&view, now);
        if let Some(cleared) = tracker.take_cleared()
            && *handle.cleared() != cleared
        {
            handle.set_cleared(cleared);
            match plan.hold {
                Hold::Respond => {}
                Hold::Address | Hold::Vmac => self.shared.wake_hold(),
            }
        }
        let forms = packet::forms(handle.key.family);
        for change in &changes {
            if let Some(addresses) = change.claimed().filter(|addresses| !addresses.is_empty()) {
                let (key, addresses) = (handle.key.clone(), addresses.to_vec());
                self.events.send(Event::AddressesClaimed { key, addresses });
            }
        }
        for change in changes {
            self.take(id, change, forms, now);
        }
    }

    /// Follows takeovers for which the hold thread has prepared for long enough.
    pub(super) fn end_waits(&mut self) {
        let now = clock::now();
        let over = |followed: &FollowedRouter| followed.waits_until.is_some_and(|until| until <= now);
        let over: Vec<HandleId> =
            self.followed.iter().filter(|(_, followed)| over(followed)).map(|(id, _)| *id).collect();
        for id in over {
            self.follow(id);
        }
    }

    fn take(&mut self, id: HandleId, change: AnnouncementChange, forms: usize, now: Time) {
        match change {
            AnnouncementChange::All(addresses) => self.schedule.takeover(id, addresses, forms, now),
            AnnouncementChange::Changed { all, added } => self.schedule.update(id, &all, added, now),
            AnnouncementChange::Again => self.schedule.contention(id, now),
            AnnouncementChange::Withdraw => self.schedule.withdraw(id),
        }
    }

    /// Takes the handle's plan. Returns true if it is another than before.
    fn note_plan(&mut self, handle: &Arc<RouterHandle>) -> bool {
        let (id, plan) = (Arc::as_ptr(handle).addr(), handle.plan());
        if self.followed.get(&id).is_some_and(|followed| Arc::ptr_eq(&followed.plan, &plan)) {
            return false;
        }
        if let Some(followed) = self.followed.get_mut(&id)
            && is_listed_alike(&followed.plan, &plan)
        {
            followed.authenticator.reconfigure(plan.standing.authentication.clone());
            followed.plan = plan;
            return false;
        }
        let before = self.followed.remove(&id);
        self.list(id, before.as_ref().map(|followed| &*followed.plan), &plan);
        self.source_announcements.note(before.as_ref().map(|followed| &*followed.plan), &plan);
        let (tracker, mut authenticator) =
            before.map_or_else(Default::default, |followed| (followed.tracker, followed.authenticator));
        authenticator.reconfigure(plan.standing.authentication.clone());
        let handle = Arc::clone(handle);
        self.followed.insert(
            id,
            FollowedRouter { handle, plan, tracker, waits_until: None, unicast: None, authenticator },
        );
        true
    }

    /// Lists the addresses of a plan in the place of its predecessor's: among thousands few are others.
    fn list(&mut self, id: HandleId, before: Option<&Plan>, plan: &Plan) {
        let lists = |plan: Option<&Plan>, (link, address, _): &(SocketsId, IpAddr, HandleId)| {
            // Addresses of a plan are in order.
            plan.is_some_and(|plan| {
                plan.link.as_ref().map(id_of) == Some(*link) && plan.addresses.binary_search(address).is_ok()
            })
        };
        for entry in before.into_iter().flat_map(|before| listing(id, before)) {
            if !lists(Some(plan), &entry) {
                self.by_address.remove(&entry);
            }
        }
        self.by_address.extend(listing(id, plan).filter(|entry| !lists(before, entry)));
    }

    fn forget(&mut self, id: HandleId) -> Option<FollowedRouter> {
        let followed = self.followed.remove(&id)?;
        for entry in listing(id, &followed.plan) {
            self.by_address.remove(&entry);
        }
        Some(followed)
    }

    /// Updates the link-layer addresses that are this node's.
    fn note_own_macs(&mut self) {
        let of_links = self.shared.links();
        let of_routers = self.followed.values().filter_map(|followed| match followed.plan.hold {
            Hold::Vmac => Some(followed.handle.key.vrid.mac(followed.handle.key.family)),
            Hold::Respond | Hold::Address => None,
        });
        self.own_macs.set(of_links.iter().map(|link| link.mac).chain(of_routers));
    }

    /// Updates the routers for which adverts are counted.
    fn note_vrids(&mut self) {
        let by_vrid = self.followed.values().filter_map(|FollowedRouter { handle, plan, .. }| {
            let link = plan.link.as_ref().map(id_of)?;
            Some(((link, handle.key.family, handle.key.vrid.get()), Arc::clone(handle)))
        });
        self.by_vrid = by_vrid.collect();
    }

    /// Updates the groups in which solicitations for VIPs arrive. An address on the interface is the kernel's to listen for.
    fn note_groups(&mut self) {
        let mut wanted: BTreeMap<SocketsId, (u32, BTreeSet<Ipv6Addr>)> = BTreeMap::new();
        for FollowedRouter { plan, .. } in self.followed.values() {
            if let (Some(link), Hold::Respond | Hold::Vmac) = (&plan.link, plan.hold) {
                let groups = plan.addresses.iter().filter_map(|address| match address {
                    IpAddr::V4(_) => None,
                    IpAddr::V6(address) => Some(ndp::solicited_node(*address)),
                });
                wanted.entry(id_of(link)).or_insert((link.index, BTreeSet::new())).1.extend(groups);
            }
        }
        self.groups.retain(|link, _| wanted.contains_key(link));
        for (link, (index, groups)) in wanted {
            self.groups.entry(link).or_insert_with(|| Groups::new(index)).want(groups);
        }
    }
}

/// Returns true if one plan has the addresses of the other on the same interface, and holds them alike.
fn is_listed_alike(one: &Plan, other: &Plan) -> bool {
    let link = |plan: &Plan| plan.link.as_ref().map(id_of);
    Arc::ptr_eq(&one.addresses, &other.addresses) && one.hold == other.hold && link(one) == link(other)
}

fn listing(id: HandleId, plan: &Plan) -> impl Iterator<Item = (SocketsId, IpAddr, HandleId)> + '_ {
    let link = plan.link.as_ref().map(id_of);
    link.into_iter().flat_map(move |link| plan.addresses.iter().map(move |address| (link, *address, id)))
}
