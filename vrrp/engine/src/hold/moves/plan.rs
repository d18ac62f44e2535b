//! Which VIPs were handed over by whom, and the mark of each node that did. Pure: kernel and clock come as arguments.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_dataplane::guard::{self, Moved, Step, UnknownConnections};
use windlass_dataplane::marked_ways::NextHop;
use windlass_kernel::port::Protocol;
use windlass_vrrp::{Family, Time};

use crate::core::predecessor::HandedOverBy;
use crate::options::ConnectionForwarding;
use crate::sharing::trails::Trails;

#[cfg(test)]
mod tests;

/// Time for which packets for a VIP may arrive after it has left this node: hosts that missed the first announcement of the next Active
/// receive the third after 1 s. A VIP that goes from one virtual router of this node to another is served by neither for a moment.
const AFTER_LEAVING: Duration = Duration::from_secs(3);
/// Looks at a node that handed over without a sign of life, after which it is taken for dead.
const LOOKS_WITHOUT_ANSWER: u32 = 2;

/// A VIP that this node serves.
#[derive(Clone, Copy, Debug)]
pub(in crate::hold) struct ServedVip {
    pub(in crate::hold) vip: IpAddr,
    pub(in crate::hold) interface: u32,
    /// The number of the takeover since which it does.
    pub(in crate::hold) takeover: u64,
    pub(in crate::hold) by: HandedOverBy,
}

/// Record of a VIP that was handed over.
#[derive(Clone, Copy, Debug)]
struct MovedVip {
    /// Node that handed it over; `None`: nothing is forwarded any more.
    hop: Option<NextHop>,
    takeover: u64,
    since: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    /// From 1 to as many as the mask has room for.
    number: u32,
    looks_without_answer: u32,
    /// True if it stopped sending, and has to show that its kernel lives.
    doubted: bool,
}

impl Slot {
    fn lives(self) -> bool {
        self.looks_without_answer < LOOKS_WITHOUT_ANSWER
    }
}

/// Trails, marks of living nodes, and addresses whose packets are passed to nodes.
pub(super) type PassingInputs = (Option<Arc<Trails>>, BTreeMap<NextHop, u32>, BTreeSet<(IpAddr, NextHop)>);

/// VIPs that were handed over to this node, and the nodes that did so.
#[derive(Debug)]
pub(super) struct MovePlan {
    settings: ConnectionForwarding,
    /// All VIPs that this node serves, handed over or not.
    served: BTreeSet<IpAddr>,
    /// VIPs that it served a moment ago, and since when it does not.
    left: BTreeMap<IpAddr, Time>,
    /// VIPs in `served` and `left` that were handed over.
    vips: BTreeMap<IpAddr, MovedVip>,
    slots: BTreeMap<NextHop, Slot>,
    /// Nodes that may have connections of shared addresses; `None`: no address is shared.
    trails: Option<Arc<Trails>>,
    /// Addresses and nodes of `trails`.
    asked: BTreeSet<(IpAddr, NextHop)>,
    /// The same with those from before to which connections may still be passed.
    passed: BTreeSet<(IpAddr, NextHop)>,
    /// By family: so that a mark is not used again as long as others are left, as connections keep it.
    last_numbers: [u32; 2],
    /// Packets forwarded, as the guard counted last, and when it counted more than before.
    counted: (u64, Time),
    /// Packets forwarded since the start.
    forwarded: u64,
}

impl MovePlan {
    pub(super) fn new(settings: ConnectionForwarding) -> Self {
        Self {
            settings,
            served: BTreeSet::new(),
            left: BTreeMap::new(),
            vips: BTreeMap::new(),
            slots: BTreeMap::new(),
            trails: None,
            asked: BTreeSet::new(),
            passed: BTreeSet::new(),
            last_numbers: [0; 2],
            counted: (0, Time::default()),
            forwarded: 0,
        }
    }

    /// Records the VIPs that this node serves now. Returns nodes that handed over and for which no mark is left.
    pub(super) fn follow(
        &mut self,
        served: impl IntoIterator<Item = ServedVip>,
        now: Time,
    ) -> BTreeSet<IpAddr> {
        let mut refused = BTreeSet::new();
        let mut present = BTreeSet::new();
        for ServedVip { vip, interface, takeover, by } in served {
            if self.trails.as_ref().is_some_and(|trails| trails.addresses.contains_key(&vip)) {
                continue;
            }
            present.insert(vip);
            if self.vips.get(&vip).is_some_and(|known| known.takeover == takeover) {
                continue;
            }
            match by {
                HandedOverBy::Nobody => drop(self.vips.remove(&vip)),
                HandedOverBy::ThisNode => {
                    if let Some(known) = self.vips.get_mut(&vip) {
                        known.takeover = takeover;
                    }
                }
                HandedOverBy::Peer(address) | HandedOverBy::SilentPeer(address) => {
                    let hop = Some(NextHop { interface, address }).filter(|hop| self.has_slot(*hop));
                    if hop.is_none() {
                        refused.insert(address);
                    }
                    let slot = hop.and_then(|hop| self.slots.get_mut(&hop));
                    if let (HandedOverBy::SilentPeer(_), Some(slot)) = (by, slot) {
                        slot.doubted = true;
                    }
                    self.vips.insert(vip, MovedVip { hop, takeover, since: now });
                }
            }
        }
        self.left.retain(|vip, _| !present.contains(vip));
        self.left.extend(self.served.difference(&present).map(|vip| (*vip, now)));
        self.served = present;
        self.expire(now);
        refused
    }

    /// Records the nodes that may have connections of shared addresses. Such an address is not handed over: whichever node is Active, its lots
    /// say who has connections. Returns the nodes for which no mark is left.
    pub(super) fn follow_trails(&mut self, trails: Option<Arc<Trails>>) -> BTreeSet<IpAddr> {
        let is_same = match (&self.trails, &trails) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_same {
            let services = trails.iter().flat_map(|trails| &trails.services);
            let asked =
                services.flat_map(|((vip, _), trail)| trail.nodes.iter().map(move |hop| (*vip, *hop)));
            self.asked = asked.collect();
            self.passed.extend(&self.asked);
            if let Some(trails) = &trails {
                self.served.retain(|vip| !trails.addresses.contains_key(vip));
                self.left.retain(|vip, _| !trails.addresses.contains_key(vip));
            }
            self.trails = trails;
        }
        let hops: BTreeSet<NextHop> = self.asked.iter().map(|(_, hop)| *hop).collect();
        hops.into_iter().filter(|hop| !self.has_slot(*hop)).map(|hop| hop.address).collect()
    }

    /// The guard has counted so many packets that were forwarded; it begins anew when it is made anew.
    pub(super) fn note_counted(&mut self, packets: u64, now: Time) {
        let (before, _) = self.counted;
        if packets != before {
            let more = packets.checked_sub(before).unwrap_or(packets);
            self.forwarded = self.forwarded.saturating_add(more);
            self.counted = (packets, now);
        }
    }

    /// Returns the VIPs that this node serves and of which others may have connections, each with the time for which this node has had it.
    pub(super) fn had_for(&self, now: Time) -> BTreeMap<IpAddr, Duration> {
        let served = self.vips.iter().filter(|(vip, _)| self.served.contains(vip));
        let had_for = served.map(|(vip, known)| (*vip, now.since(known.since)));
        had_for.filter(|(_, time)| *time < self.settings.window).collect()
    }

    /// Packets forwarded since the start.
    pub(super) fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// Records whether a node that handed over could be reached when something was last sent to it; `None`: nothing was. Returns true if it
    /// is taken for dead from now on: its connections are no longer forwarded.
    pub(super) fn note_reachable(&mut self, hop: NextHop, reachable: Option<bool>) -> bool {
        let Some(slot) = self.slots.get_mut(&hop) else { return false };
        match reachable {
            Some(false) => slot.looks_without_answer = slot.looks_without_answer.saturating_add(1),
            Some(true) | None => slot.looks_without_answer = 0,
        }
        if slot.lives() {
            return false;
        }
        let is_new = slot.looks_without_answer == LOOKS_WITHOUT_ANSWER;
        self.bury(hop);
        is_new
    }

    fn bury(&mut self, hop: NextHop) {
        self.passed.retain(|passed| passed.1 != hop || self.asked.contains(passed));
        self.end_where(|known| known.hop == Some(hop));
    }

    /// Takes the nodes for dead that do not answer this node as the director. (Its questions, one after the other, keep the kernel from finding
    /// that out.) Returns those that are taken for dead from now on.
    pub(super) fn bury_silent(&mut self) -> Vec<NextHop> {
        let mut silent: Vec<NextHop> =
            self.slots.keys().filter(|hop| self.is_silent(**hop)).copied().collect();
        silent.retain(|hop| {
            let Some(slot) = self.slots.get_mut(hop) else { return false };
            let is_new = slot.lives();
            slot.looks_without_answer = LOOKS_WITHOUT_ANSWER;
            self.bury(*hop);
            is_new
        });
        silent
    }

    /// Returns true if the node does not answer this node as the director.
    pub(super) fn is_silent(&self, hop: NextHop) -> bool {
        self.trails.as_ref().is_some_and(|trails| trails.silent.contains(&hop.address))
    }

    /// A peer with this address may have died: it has to show that it lives, if it handed over.
    pub(super) fn doubt(&mut self, peer: IpAddr) {
        for (_, slot) in self.slots.iter_mut().filter(|(hop, _)| hop.address == peer) {
            slot.doubted = true;
        }
    }

    /// Nodes that have to show that they live. When that is known, [`Self::note_answer`] is to be called.
    pub(super) fn doubted(&self) -> impl Iterator<Item = NextHop> {
        self.slots.iter().filter(|(_, slot)| slot.doubted).map(|(hop, _)| *hop)
    }

    /// Records whether a node that stopped sending answered the kernel. Its connections stay forwarded, or no longer are.
    pub(super) fn note_answer(&mut self, hop: NextHop, answered: bool) {
        if let Some(slot) = self.slots.get_mut(&hop) {
            slot.doubted = false;
        }
        if !answered {
            self.end_where(|known| known.hop == Some(hop));
        }
    }

    /// Removes what has expired.
    pub(super) fn expire(&mut self, now: Time) {
        let (window, (_, active)) = (self.settings.window, self.counted);
        self.left.retain(|_, since| now < *since + AFTER_LEAVING);
        let (served, left) = (&self.served, &self.left);
        self.vips.retain(|vip, _| served.contains(vip) || left.contains_key(vip));
        if now >= active + window {
            self.passed.clone_from(&self.asked);
        }
        self.end_where(|known| now >= known.since + window && now >= active + window);
    }

    /// Forwards nothing of these any more.
    fn end_where(&mut self, over: impl Fn(&MovedVip) -> bool) {
        self.vips.values_mut().filter(|known| over(known)).for_each(|known| known.hop = None);
        let handed_over = self.vips.values().filter_map(|known| known.hop);
        let used: BTreeSet<NextHop> = handed_over.chain(self.passed.iter().map(|(_, hop)| *hop)).collect();
        self.slots.retain(|hop, _| used.contains(hop));
    }

    /// Returns what the guard is to do. For a VIP that has left, connections that were forwarded still are; connections unknown to this
    /// node are left to the next Active, of which their senders have not learnt yet.
    pub(super) fn moved(&self, now: Time) -> BTreeMap<IpAddr, Moved> {
        let mark = |known: &MovedVip| Some(self.settings.marks.mark(self.slots.get(&known.hop?)?.number));
        let here =
            self.vips.iter().filter(|(vip, _)| self.served.contains(vip)).filter_map(|(vip, known)| {
                let is_open = now < known.since + self.settings.window;
                let unknown =
                    if is_open { UnknownConnections::Forwarded } else { UnknownConnections::Untouched };
                Some((*vip, Moved { mark: Some(mark(known)?), unknown }))
            });
        let left = self.left.keys().map(|vip| {
            let mark = self.vips.get(vip).and_then(mark);
            (*vip, Moved { mark, unknown: UnknownConnections::Dropped })
        });
        here.chain(left).collect()
    }

    /// The VIPs with connections that are forwarded, or were a moment ago, and their marks.
    pub(super) fn marked(&self) -> BTreeSet<(IpAddr, u32)> {
        let mark = |known: &MovedVip| Some(self.settings.marks.mark(self.slots.get(&known.hop?)?.number));
        let handed_over = self.vips.iter().filter_map(|(vip, known)| Some((*vip, mark(known)?)));
        handed_over.chain(self.passed_to()).collect()
    }

    /// Shared addresses and the marks of nodes to which their packets are passed.
    fn passed_to(&self) -> impl Iterator<Item = (IpAddr, u32)> {
        self.passed.iter().filter_map(|(vip, hop)| Some((*vip, self.mark_of(*hop)?)))
    }

    /// The mark of a node that lives.
    fn mark_of(&self, hop: NextHop) -> Option<u32> {
        let slot = self.slots.get(&hop).filter(|slot| slot.lives())?;
        Some(self.settings.marks.mark(slot.number))
    }

    /// Returns all that [`Self::passing`] follows from.
    pub(super) fn passing_inputs(&self) -> PassingInputs {
        let marks = self.slots.keys().filter_map(|hop| Some((*hop, self.mark_of(*hop)?)));
        (self.trails.clone(), marks.collect(), self.passed.clone())
    }

    /// Returns the next node for packets of shared addresses that this node does not know: the first that lives and has a mark. `passed`: what
    /// followed from the inputs `before`.
    pub(super) fn passing(
        &self,
        (before, marks): (&PassingInputs, &BTreeMap<NextHop, u32>),
        passed: Option<&guard::Trails>,
    ) -> Option<guard::Trails> {
        let (trails_before, marks_before, _) = before;
        let passed = passed.filter(|_| marks_before == marks);
        let kept = |service, trail| {
            let before = trails_before.as_ref()?.services.get(service)?;
            passed.filter(|_| Arc::ptr_eq(before, trail))?.services.get(service).cloned()
        };
        let step = |hops: &Vec<NextHop>, protocol: Protocol| {
            let marks: Vec<u32> = hops.iter().filter_map(|hop| marks.get(hop).copied()).collect();
            // TCP may come round to this node again, because there may be one node more than this one knows of. A flow of UDP begins at the
            // last node.
            let more = match protocol {
                Protocol::Tcp | Protocol::Sctp => 1,
                Protocol::Udp => 0,
            };
            let times = u8::try_from(marks.len()).unwrap_or(u8::MAX).saturating_add(more);
            Some(Step { mark: *marks.first()?, times })
        };
        let services = self.trails.as_ref()?.services.iter().map(|(service, trail)| {
            let steps = || {
                let steps = trail.lots.iter().filter_map(|(lot, hops)| Some((*lot, step(hops, service.1)?)));
                Arc::new((trail.by, steps.collect()))
            };
            (*service, kept(service, trail).unwrap_or_else(steps))
        });
        Some(guard::Trails { services: services.collect(), marked: self.passed_to().collect() })
    }

    /// The nodes that handed over, with the numbers of their marks.
    pub(super) fn hops(&self) -> impl Iterator<Item = (NextHop, u32)> {
        self.slots.iter().map(|(hop, slot)| (*hop, slot.number))
    }

    /// The nodes that handed over, with the numbers of their marks, and the VIPs whose marked packets are led to each.
    pub(super) fn led(&self) -> BTreeMap<(NextHop, u32), BTreeSet<IpAddr>> {
        let mut led: BTreeMap<(NextHop, u32), BTreeSet<IpAddr>> =
            self.hops().map(|hop| (hop, BTreeSet::new())).collect();
        for (vip, known) in &self.vips {
            let hop = known.hop.and_then(|hop| Some((hop, self.slots.get(&hop)?.number)));
            if let Some(vips) = hop.and_then(|hop| led.get_mut(&hop)) {
                vips.insert(*vip);
            }
        }
        for (vip, hop) in &self.passed {
            let number = self.slots.get(hop).map(|slot| slot.number);
            if let Some(vips) = number.and_then(|number| led.get_mut(&(*hop, number))) {
                vips.insert(*vip);
            }
        }
        led
    }

    /// The next time from which on [`Self::moved`] or [`Self::hops`] is another by itself.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        let window = self.settings.window;
        let ends = self.vips.values().flat_map(|known| {
            let forwards = known.hop.is_some();
            [known.since + window, self.counted.1 + window].map(|end| forwards.then_some(end))
        });
        let left = self.left.values().map(|since| *since + AFTER_LEAVING);
        ends.flatten().chain(left).filter(|end| *end > now).min()
    }

    /// Returns true if the node has a slot, or gets one.
    fn has_slot(&mut self, hop: NextHop) -> bool {
        if self.slots.contains_key(&hop) {
            return true;
        }
        let family = Family::of(hop.address);
        let taken: BTreeSet<u32> = self
            .slots
            .iter()
            .filter(|(other, _)| Family::of(other.address) == family)
            .map(|(_, slot)| slot.number)
            .collect();
        let last = &mut self.last_numbers[usize::from(family == Family::V6)];
        let count = self.settings.marks.count();
        let next = last.checked_rem(count).unwrap_or_default().saturating_add(1);
        let free = (next..=count).chain(1..next).find(|one| !taken.contains(one));
        let Some(number) = free else { return false };
        *last = number;
        self.slots.insert(hop, Slot { number, looks_without_answer: 0, doubted: false });
        true
    }
}
