//! Binds addresses through netlink, as [`Bindings`] decides, and follows what others do to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::AddressFlags;
use nix::errno::Errno;
use windlass_kernel::clock;
use windlass_kernel::netlink::{Address, Change, NetlinkError, Refusal, RouteSocket};
use windlass_vrrp::Time;

use super::bindings::{AddressOp, Binding, Bindings, lifetime};
use super::foreign_addresses::ForeignAddresses;
use super::messages::message_of;

#[cfg(test)]
mod tests;

/// Steps between two looks at whether they are still permitted.
const CHUNK: usize = 64;
/// Time after which a round ends, so that what is bound is announced while the kernel, which takes the longer the more there
/// are, binds the rest.
const ROUND_LIMIT: Duration = Duration::from_millis(250);

/// Way in which this engine's addresses are distinguished from others'.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ownership {
    /// By the tag, as long as nothing else is known.
    Tag,
    /// The kernel (before 5.18) keeps no tag: by what this process has bound and by their form.
    Memory,
}

/// The addresses of this engine.
pub(super) struct Addresses {
    tag: u8,
    ownership: Ownership,
    /// True if `ownership` is known to be right.
    ownership_known: bool,
    bindings: Bindings,
    foreign: ForeignAddresses,
    /// Own removals that the kernel has not reported yet: not to be taken for another's.
    removing: BTreeMap<Binding, u32>,
    /// Addresses that the kernel has reported. In IPv6 it does so some time after it has accepted the request: a worker of its own makes
    /// the route, and what arrives before is not received.
    confirmed: BTreeSet<Binding>,
    /// Reasons why desired addresses are not bound.
    bind_errors: BTreeMap<Binding, String>,
}

impl Addresses {
    /// None yet. `tag` marks those of this engine.
    pub(super) fn new(tag: u8) -> Self {
        Self {
            tag,
            ownership: Ownership::Tag,
            ownership_known: false,
            bindings: Bindings::default(),
            foreign: ForeignAddresses::default(),
            removing: BTreeMap::new(),
            confirmed: BTreeSet::new(),
            bind_errors: BTreeMap::new(),
        }
    }

    /// Removes what an earlier engine of this tag left behind. Returns how many addresses there were.
    pub(super) fn sweep(&self, route: &mut RouteSocket) -> Result<usize, NetlinkError> {
        let left = route.addresses(AddressFamily::Unspec)?.entries;
        let ours: Vec<_> = left.iter().filter(|address| self.is_ours(address)).map(binding_of).collect();
        let answers = route
            .batch(ours.iter().map(|binding| self.message(AddressOp::Remove(*binding), Duration::ZERO)))?;
        Ok(answers.into_iter().flatten().count())
    }

    /// Compares the recorded addresses with all that the kernel has. Returns those that were bound and are gone.
    pub(super) fn resync(
        &mut self,
        route: &mut RouteSocket,
        now: Time,
    ) -> Result<Vec<Binding>, NetlinkError> {
        let all = route.addresses(AddressFamily::Unspec)?.entries;
        self.removing.clear();
        self.foreign = ForeignAddresses::default();
        let mut ours = BTreeSet::new();
        for address in &all {
            if self.is_ours(address) {
                ours.insert(binding_of(address));
            } else {
                self.note_foreign(address);
            }
        }
        self.confirmed.clone_from(&ours);
        let gone: Vec<Binding> =
            self.bindings.bound().filter(|binding| !ours.contains(binding)).copied().collect();
        Ok(gone.into_iter().filter(|binding| self.bindings.lost(*binding, now)).collect())
    }

    /// Applies a change that the kernel reports. Returns an address of ours that another process removed.
    pub(super) fn apply_change(&mut self, change: &Change, now: Time) -> Option<Binding> {
        match change {
            Change::Link(_) => None,
            Change::LinkGone(index) => {
                self.foreign.remove_interface(*index);
                self.confirmed.retain(|binding| binding.interface != *index);
                let gone: Vec<Binding> =
                    self.bindings.bound().filter(|binding| binding.interface == *index).copied().collect();
                for binding in &gone {
                    self.bindings.release(binding);
                }
                None
            }
            Change::Address(address) if self.is_ours(address) => {
                self.foreign.remove(binding_of(address), address.prefix);
                self.confirmed.insert(binding_of(address));
                None
            }
            Change::Address(address) => {
                self.note_foreign(address);
                None
            }
            Change::AddressGone(address) if self.is_ours(address) => {
                let binding = binding_of(address);
                self.confirmed.remove(&binding);
                match self.removing.get_mut(&binding) {
                    Some(1) => drop(self.removing.remove(&binding)),
                    Some(count) => *count = count.saturating_sub(1),
                    None => return self.bindings.lost(binding, now).then_some(binding),
                }
                None
            }
            Change::AddressGone(address) => {
                self.foreign.remove(binding_of(address), address.prefix);
                None
            }
        }
    }

    /// Binds exactly `wanted`, as far as others' addresses and the kernel allow. Calls `permits` right before each request that binds.
    /// Returns true if there is more to do.
    pub(super) fn settle(
        &mut self,
        wanted: &BTreeSet<Binding>,
        permits: &dyn Fn(&Binding) -> bool,
        route: &mut RouteSocket,
    ) -> Result<bool, NetlinkError> {
        let now = clock::now();
        self.bind_errors.retain(|binding, _| wanted.contains(binding) && !self.bindings.holds(binding));
        let mut free = BTreeSet::new();
        for binding in wanted {
            if let Some(conflict) = self.conflict(binding, now) {
                self.bind_errors.insert(*binding, conflict);
            } else {
                free.insert(*binding);
            }
        }
        self.bindings.forget(&free, now);
        let lifetime = lifetime(&free);
        let ops = self.bindings.ops(&free, now);
        let mut rest = ops.len();
        for chunk in ops.chunks(CHUNK) {
            if clock::now().since(now) > ROUND_LIMIT {
                break;
            }
            rest = rest.saturating_sub(chunk.len());
            let permitted = |op: &&AddressOp| match op {
                AddressOp::Add(binding) | AddressOp::Renew(binding) => permits(binding),
                AddressOp::Remove(_) => true,
            };
            let ops: Vec<AddressOp> = chunk.iter().filter(permitted).copied().collect();
            self.carry_out(ops, lifetime, route)?;
        }
        Ok(rest > 0)
    }

    fn carry_out(
        &mut self,
        ops: Vec<AddressOp>,
        lifetime: Duration,
        route: &mut RouteSocket,
    ) -> Result<(), NetlinkError> {
        let now = clock::now();
        let answers = route.batch(ops.iter().map(|op| self.message(*op, lifetime)))?;
        let (mut done, mut existing) = (Vec::new(), Vec::new());
        for (op, answer) in ops.into_iter().zip(answers) {
            match (op, answer) {
                (AddressOp::Remove(binding), Ok(())) => {
                    let removing = self.removing.entry(binding).or_default();
                    *removing = removing.saturating_add(1);
                    done.push(op);
                }
                // Expired, or its interface is gone: as good as removed.
                (AddressOp::Remove(_), Err(_)) | (AddressOp::Add(_) | AddressOp::Renew(_), Ok(())) => {
                    done.push(op);
                }
                (AddressOp::Add(binding), Err(Refusal { errno: Errno::EEXIST, .. })) => {
                    existing.push(binding);
                }
                (AddressOp::Add(_) | AddressOp::Renew(_), Err(refusal)) => {
                    self.refuse(op, refusal.to_string(), now);
                }
            }
        }
        self.succeed(&done, lifetime, now);
        self.learn_ownership(&done, route)?;
        if existing.is_empty() { Ok(()) } else { self.adopt(&existing, lifetime, route, now) }
    }

    /// Addresses that are there already: ours are renewed, others are left alone.
    fn adopt(
        &mut self,
        existing: &[Binding],
        lifetime: Duration,
        route: &mut RouteSocket,
        now: Time,
    ) -> Result<(), NetlinkError> {
        let all = route.addresses(AddressFamily::Unspec)?.entries;
        let (ours, others): (Vec<&Address>, Vec<&Address>) =
            all.iter().partition(|address| self.is_ours(address));
        for address in others {
            self.note_foreign(address);
        }
        let ours: BTreeSet<Binding> = ours.into_iter().map(binding_of).collect();
        for binding in existing {
            let renewal = AddressOp::Renew(*binding);
            if ours.contains(binding) {
                self.confirmed.insert(*binding);
                let (message, flags) = self.message(renewal, lifetime);
                match route.request(message, flags) {
                    Ok(()) => self.succeed(&[renewal], lifetime, now),
                    Err(error) => self.refuse(renewal, error.to_string(), now),
                }
            } else {
                let gone = || format!("another's {} was on the interface and is gone", binding.address);
                let reason = self.foreign.conflict(binding).unwrap_or_else(gone);
                self.refuse(renewal, reason, now);
            }
        }
        Ok(())
    }

    /// Looks, once, whether the kernel keeps the tag of what was bound.
    fn learn_ownership(&mut self, done: &[AddressOp], route: &mut RouteSocket) -> Result<(), NetlinkError> {
        let added = done.iter().find_map(|op| match op {
            AddressOp::Add(binding) => Some(*binding),
            AddressOp::Renew(_) | AddressOp::Remove(_) => None,
        });
        let Some(added) = added.filter(|_| !self.ownership_known) else { return Ok(()) };
        let all = route.addresses(AddressFamily::Unspec)?.entries;
        self.learn_ownership_from(added, &all);
        Ok(())
    }

    fn learn_ownership_from(&mut self, added: Binding, all: &[Address]) {
        let Some(found) = all.iter().find(|address| binding_of(address) == added && is_host(address)) else {
            return;
        };
        self.ownership_known = true;
        if found.protocol != self.tag && is_like_ours(found) {
            tracing::warn!(
                "this kernel keeps no origin of addresses (IFA_PROTO, Linux 5.18): VIPs that a killed engine leaves behind \
                 are not swept at the next start but expire by themselves, and are in the way until then"
            );
            self.ownership = Ownership::Memory;
        }
    }

    fn succeed(&mut self, ops: &[AddressOp], lifetime: Duration, now: Time) {
        self.bindings.succeeded(ops, lifetime, now);
        for op in ops {
            match op {
                AddressOp::Add(binding) | AddressOp::Renew(binding) | AddressOp::Remove(binding) => {
                    self.bind_errors.remove(binding);
                }
            }
        }
    }

    fn refuse(&mut self, op: AddressOp, reason: String, now: Time) {
        self.bindings.refused(op, now);
        match op {
            AddressOp::Add(binding) | AddressOp::Renew(binding) => {
                drop(self.bind_errors.insert(binding, reason));
            }
            AddressOp::Remove(_) => {}
        }
    }

    fn note_foreign(&mut self, address: &Address) {
        let binding = binding_of(address);
        self.foreign.insert(binding, address.prefix);
        if is_host(address) {
            // Made over to somebody else, as `ip addr change` does.
            self.bindings.release(&binding);
        }
    }

    /// Returns true if it is bound and the kernel receives on it.
    pub(super) fn serves(&self, binding: &Binding) -> bool {
        self.bindings.holds(binding) && (binding.address.is_ipv4() || self.confirmed.contains(binding))
    }

    /// Returns the reason why a desired address is not bound.
    pub(super) fn bind_error(&self, binding: &Binding) -> Option<&str> {
        self.bind_errors.get(binding).map(String::as_str)
    }

    /// Returns the reason why another process of this node keeps it from being bound, desired or not.
    pub(super) fn conflict(&self, binding: &Binding, now: Time) -> Option<String> {
        let removed = || {
            let address = binding.address;
            self.bindings.is_given_up(binding, now).then(|| {
                format!(
                    "something on this node removed {address} from the interface again and again: find it (`ip monitor \
                     address`; often it is the network's manager) and have it leave alone what it did not put there"
                )
            })
        };
        self.foreign.conflict(binding).or_else(removed)
    }

    /// Returns true if nothing is bound.
    pub(super) fn is_empty(&self) -> bool {
        self.bindings.bound().next().is_none()
    }

    /// Shortest pause between two rounds without cause.
    pub(super) fn gathering_time(&self) -> Duration {
        self.bindings.gathering_time()
    }

    /// Returns when there is something to do if nothing changes until `now`.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        self.bindings.due(now)
    }

    fn message(&self, op: AddressOp, lifetime: Duration) -> (netlink_packet_route::RouteNetlinkMessage, u16) {
        message_of(op, lifetime, self.tag)
    }

    fn is_ours(&self, address: &Address) -> bool {
        is_host(address)
            && match self.ownership {
                Ownership::Tag => address.protocol == self.tag,
                Ownership::Memory => {
                    let binding = binding_of(address);
                    let known = self.bindings.holds(&binding) || self.removing.contains_key(&binding);
                    known && is_like_ours(address)
                }
            }
    }
}

fn binding_of(address: &Address) -> Binding {
    Binding { interface: address.index, address: address.ip }
}

fn is_host(address: &Address) -> bool {
    let host = match address.ip {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    };
    address.prefix == host
}

/// With a lifetime, without a route of its own.
fn is_like_ours(address: &Address) -> bool {
    address.flags.contains(AddressFlags::Noprefixroute) && !address.flags.contains(AddressFlags::Permanent)
}
