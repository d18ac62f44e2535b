//! Following the duties.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use windlass_vrrp::Time;

use crate::clock;
use crate::config::Hold;
use crate::duty::{Duty, Plan};
use crate::event::Event;

use super::charge::{Charge, LinkId, Seen, Step};
use super::groups::Groups;
use super::{Followed, Id, Neighbour, heard, id_of, ndp};

impl Neighbour<'_> {
    /// Compares all duties with what was done.
    pub(super) fn follow_all(&mut self) {
        let duties = self.roster.duties();
        let present: BTreeSet<Id> = duties.iter().map(|duty| Arc::as_ptr(duty).addr()).collect();
        let gone: Vec<Id> = self.followed.keys().filter(|id| !present.contains(id)).copied().collect();
        let mut changed = !gone.is_empty();
        for id in gone {
            self.schedule.withdraw(id);
            self.forget(id);
        }
        for duty in duties.iter() {
            changed |= self.note_plan(duty);
            self.follow(Arc::as_ptr(duty).addr());
        }
        if changed {
            self.note_groups();
        }
        self.note_own_macs();
        self.greet();
    }

    /// Compares one duty with what was done.
    pub(super) fn follow(&mut self, id: Id) {
        let now = clock::now();
        let Some(Followed { duty, plan, charge, unicast }) = self.followed.get_mut(&id) else { return };
        *unicast = duty.unicast();
        let seen = Seen {
            standing: duty.standing(now),
            addresses: &plan.addresses,
            in_place: &duty.in_place(),
            hold: plan.hold,
            probe: plan.probe,
            unproven: &plan.unproven,
            link: plan.link.as_ref().map(id_of),
        };
        let steps = charge.follow(&seen, now);
        if let Some(cleared) = charge.take_cleared()
            && *duty.cleared() != cleared
        {
            duty.set_cleared(cleared);
            match plan.hold {
                Hold::Respond => {}
                Hold::Address | Hold::Vmac => self.roster.ring_hold(),
            }
        }
        let forms = heard::forms(duty.key.family);
        for step in &steps {
            if let Some(addresses) = step.claimed().filter(|addresses| !addresses.is_empty()) {
                let (key, addresses) = (duty.key.clone(), addresses.to_vec());
                self.events.tell(Event::AddressesClaimed { key, addresses });
            }
        }
        for step in steps {
            self.take(id, step, forms, now);
        }
    }

    fn take(&mut self, id: Id, step: Step, forms: usize, now: Time) {
        match step {
            Step::All(addresses) => self.schedule.takeover(id, addresses, forms, now),
            Step::Changed { all, added } => self.schedule.update(id, &all, added, now),
            Step::Again => self.schedule.contention(id, now),
            Step::Withdraw => self.schedule.withdraw(id),
        }
    }

    /// Takes the duty's plan; whether it is another than before.
    fn note_plan(&mut self, duty: &Arc<Duty>) -> bool {
        let (id, plan) = (Arc::as_ptr(duty).addr(), duty.plan());
        if self.followed.get(&id).is_some_and(|followed| Arc::ptr_eq(&followed.plan, &plan)) {
            return false;
        }
        if let Some(followed) = self.followed.get_mut(&id)
            && is_listed_alike(&followed.plan, &plan)
        {
            followed.plan = plan;
            return false;
        }
        let before = self.followed.remove(&id);
        self.list(id, before.as_ref().map(|followed| &*followed.plan), &plan);
        self.greetings.note(before.as_ref().map(|followed| &*followed.plan), &plan);
        let charge = before.map_or_else(Charge::default, |followed| followed.charge);
        self.followed.insert(id, Followed { duty: Arc::clone(duty), plan, charge, unicast: None });
        true
    }

    /// Lists the addresses of a plan in the place of its predecessor's: among thousands few are others.
    fn list(&mut self, id: Id, before: Option<&Plan>, plan: &Plan) {
        let lists = |plan: Option<&Plan>, (link, address, _): &(LinkId, IpAddr, Id)| {
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

    fn forget(&mut self, id: Id) -> Option<Followed> {
        let followed = self.followed.remove(&id)?;
        for entry in listing(id, &followed.plan) {
            self.by_address.remove(&entry);
        }
        Some(followed)
    }

    /// Which link-layer addresses are this node's.
    fn note_own_macs(&mut self) {
        let of_links = self.roster.links();
        let of_routers = self.followed.values().filter_map(|followed| match followed.plan.hold {
            Hold::Vmac => Some(followed.duty.key.vrid.mac(followed.duty.key.family)),
            Hold::Respond | Hold::Address => None,
        });
        self.own.set(of_links.iter().map(|link| link.mac).chain(of_routers));
    }

    /// Which groups the solicitations for VIPs come in. An address on the interface is the kernel's to listen for.
    fn note_groups(&mut self) {
        let mut wanted: BTreeMap<LinkId, (u32, BTreeSet<Ipv6Addr>)> = BTreeMap::new();
        for Followed { plan, .. } in self.followed.values() {
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

/// Whether one plan has the addresses of the other on the same interface, and holds them alike.
fn is_listed_alike(one: &Plan, other: &Plan) -> bool {
    let link = |plan: &Plan| plan.link.as_ref().map(id_of);
    Arc::ptr_eq(&one.addresses, &other.addresses) && one.hold == other.hold && link(one) == link(other)
}

fn listing(id: Id, plan: &Plan) -> impl Iterator<Item = (LinkId, IpAddr, Id)> + '_ {
    let link = plan.link.as_ref().map(id_of);
    link.into_iter().flat_map(move |link| plan.addresses.iter().map(move |address| (link, *address, id)))
}
