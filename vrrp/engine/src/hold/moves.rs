//! Keeps the connections of VIPs that another node handed over: what the guard is to mark, and the routing rules that lead
//! marked packets to that node.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use windlass_dataplane::guard::{self, Moved, UnknownConnections};
use windlass_dataplane::marked_ways::{NextHop, Owner};
use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::netlink::{KeptRouteSocket, NetlinkError};
use windlass_vrrp::{Family, Time};

use super::request::BindingRequest;
use crate::config::{Hold, RouterKey};
use crate::handle::Plan;
use crate::options::ConnectionForwarding;
use crate::sharing::trails::Trails;
use crate::status::ForwardingStatus;

mod plan;
mod questions;
#[cfg(test)]
mod tests;

pub(super) use plan::ServedVip;
use plan::{MovePlan, PassingInputs};
use questions::Questions;

/// Time between two looks at whether rules and nodes are still there.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Routes that are written again at each look: the hold thread does nothing heavy.
const ROUTES_A_LOOK: usize = 256;
/// Time until the next try after the kernel refused.
const RETRY: Duration = Duration::from_secs(30);
/// Time in which most connections that go on speak after a VIP has come here, and time between two looks for strays in it; they
/// are looked for less often later.
const BUSY_TIME: Duration = Duration::from_secs(10);
const STRAYS_INTERVAL: Duration = Duration::from_millis(150);
/// 0: the kernel knows only connections whose beginning it saw.
const PICKS_UP_CONNECTIONS: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_loose";

/// Addresses, nodes and lots whose packets the guard is to mark.
#[derive(Clone, Default)]
pub(super) struct Forwarding {
    /// VIPs that were handed over.
    pub(super) moved: Arc<BTreeMap<IpAddr, Moved>>,
    /// Next nodes for packets of shared addresses; `None`: no address is shared.
    pub(super) passed: Option<Arc<guard::Trails>>,
}

impl Forwarding {
    /// Returns true if it is the very same.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.moved, &other.moved)
            && self.passed.as_ref().map(Arc::as_ptr) == other.passed.as_ref().map(Arc::as_ptr)
    }
}

/// VIPs that were handed over, in the plan and in the kernel.
pub(super) struct Moves {
    owner: Owner,
    plan: MovePlan,
    route: KeptRouteSocket,
    /// Rules and routes installed in the kernel, by family and number: the node, and the VIPs whose packets are led to it.
    told: BTreeMap<(Family, u32), (NextHop, BTreeSet<IpAddr>)>,
    /// Looks until now.
    looks: usize,
    forwarding: Forwarding,
    /// Inputs from which its next nodes follow: they may be of thousands of addresses.
    passed_by: PassingInputs,
    /// Nodes that may have connections of shared addresses, and for which no mark is left.
    without_mark: BTreeSet<IpAddr>,
    /// VIPs and the marks that the guard sets on their connections.
    marked: BTreeSet<(IpAddr, u32)>,
    /// VIPs and the marks of their connections that are to be forgotten.
    over: BTreeSet<(IpAddr, u32)>,
    /// The peer that was heard last in each virtual router.
    heard_from: BTreeMap<RouterKey, IpAddr>,
    /// Questions to nodes that stopped sending.
    questions: Questions,
    next_look: Time,
    /// Time of the next look for strays; `None`: there can be none.
    strays_due: Option<Time>,
    /// Time of the next try after a refusal, with the reported error.
    refused: Option<(Time, String)>,
}

impl Moves {
    pub(super) fn new(settings: ConnectionForwarding, tag: u8) -> Self {
        Self {
            owner: Owner { tag, marks: settings.marks },
            plan: MovePlan::new(settings),
            route: KeptRouteSocket::default(),
            told: BTreeMap::new(),
            looks: 0,
            forwarding: Forwarding::default(),
            passed_by: PassingInputs::default(),
            without_mark: BTreeSet::new(),
            marked: BTreeSet::new(),
            over: BTreeSet::new(),
            heard_from: BTreeMap::new(),
            questions: Questions::default(),
            next_look: Time::default(),
            strays_due: None,
            refused: None,
        }
    }

    /// Removes the rules that an earlier engine left behind.
    pub(super) fn sweep(&mut self) {
        let owner = self.owner;
        let swept = self.route.with(|route| {
            let rules = route.rules()?;
            let rules =
                rules.iter().filter_map(|rule| owner.left_behind(rule)).map(|(deletion, ..)| deletion);
            let routes = route.routes_by(owner.tag)?;
            let routes = routes.iter().filter_map(|route| owner.left_behind_route(route));
            let deletions: Vec<_> = rules.chain(routes).map(|deletion| (deletion, 0)).collect();
            // What is refused is gone already.
            route.batch(deletions).map(drop)
        });
        if let Err(error) = swept {
            tracing::warn!(%error, "cannot look for routing rules that an earlier engine left behind");
        }
    }

    /// Returns what the guard is to mark, when the routing for it is in place. To be called before the guard is changed; [`Self::release`]
    /// after it.
    pub(super) fn follow(
        &mut self,
        requests: &[BindingRequest],
        trails: Option<Arc<Trails>>,
        counted: Option<u64>,
        now: Time,
    ) -> Forwarding {
        if let Some(packets) = counted {
            self.plan.note_counted(packets, now);
        }
        self.without_mark = self.plan.follow_trails(trails);
        self.plan.bury_silent().into_iter().for_each(say_dead);
        let without_mark = self.plan.follow(served(requests.iter().filter(|one| forwards(&one.plan))), now);
        for peer in without_mark {
            tracing::warn!(
                %peer,
                "its connections are not forwarded to it: more nodes handed addresses over than there are marks; give more \
                 bits to the mark"
            );
        }
        self.doubt_replaced(requests);
        // First: who is known to be dead is sent nothing at all.
        self.settle_doubts(requests, now);
        self.look(now);
        let moved = if self.is_possible() { self.plan.moved(now) } else { BTreeMap::new() };
        if moved != *self.forwarding.moved {
            self.forwarding.moved = Arc::new(moved);
        }
        self.pass();
        let marked = self.plan.marked();
        if marked != self.marked {
            let before = std::mem::replace(&mut self.marked, marked);
            self.over.extend(before);
            self.over.retain(|one| !self.marked.contains(one));
        }
        self.forwarding.clone()
    }

    /// Finds the next nodes for packets of shared addresses, if these or the nodes have changed.
    fn pass(&mut self) {
        if !self.is_possible() {
            (self.forwarding.passed, self.passed_by) = (None, PassingInputs::default());
            return;
        }
        let inputs = self.plan.passing_inputs();
        if inputs != self.passed_by {
            let (_, marks, _) = &inputs;
            let passed = self.forwarding.passed.as_deref();
            self.forwarding.passed = self.plan.passing((&self.passed_by, marks), passed).map(Arc::new);
            self.passed_by = inputs;
        }
    }

    /// Returns the nodes that may have connections of shared addresses and get no packets, as no mark is left.
    pub(super) fn without_mark(&self) -> &BTreeSet<IpAddr> {
        &self.without_mark
    }

    /// Returns true if it is not known yet whether this peer lives, which handed over or stopped sending.
    pub(super) fn doubts(&self, peer: IpAddr) -> bool {
        self.plan.doubted().any(|hop| hop.address == peer)
    }

    /// Returns true if there are connections to VIPs that are no longer forwarded.
    pub(super) fn has_ended(&self) -> bool {
        !self.over.is_empty()
    }

    /// Takes those connections, by their marks: to be forgotten when the guard marks none any more.
    pub(super) fn take_ended(&mut self) -> BTreeSet<(IpAddr, u32)> {
        std::mem::take(&mut self.over)
    }

    /// The bits of those marks.
    pub(super) fn marks(&self) -> MarkMask {
        self.owner.marks
    }

    /// Removes the routing that the guard needs no longer.
    pub(super) fn release(&mut self) {
        let wanted = self.plan.led().into_iter().map(|(led, vips)| (key_of(led), vips)).collect();
        if let Err(error) = self.release_but(&wanted) {
            tracing::warn!(%error, "cannot remove routing rules; trying again");
        }
    }

    /// Removes all routing but for these marks and VIPs.
    fn release_but(
        &mut self,
        wanted: &BTreeMap<(Family, u32), BTreeSet<IpAddr>>,
    ) -> Result<(), NetlinkError> {
        let owner = self.owner;
        let mut orders = Vec::new();
        for ((family, number), (_, told)) in &self.told {
            let wanted = wanted.get(&(*family, *number));
            if wanted.is_none() {
                let [rule, _] = owner.release(*family, *number);
                orders.push(rule);
            }
            let over = told.iter().filter(|vip| wanted.is_none_or(|wanted| !wanted.contains(vip)));
            orders.extend(owner.release_to(*family, *number, over.copied()));
        }
        if !orders.is_empty() {
            // What is refused is gone already.
            self.route.with(|route| route.batch(orders))?;
            self.told.retain(|key, _| wanted.contains_key(key));
            for (key, (_, told)) in &mut self.told {
                told.retain(|vip| wanted.get(key).is_some_and(|wanted| wanted.contains(vip)));
            }
        }
        Ok(())
    }

    /// Ends all forwarding: [`Self::take_ended`] then returns all that was forwarded.
    pub(super) fn end_all(&mut self) {
        self.over.append(&mut self.marked);
    }

    /// Removes all rules.
    pub(super) fn end(&mut self) {
        if let Err(error) = self.release_but(&BTreeMap::new()) {
            tracing::warn!(%error, "routing rules for addresses that were handed over stay; a later start removes them");
        }
    }

    /// Returns the status of forwarding.
    pub(super) fn status(&self) -> ForwardingStatus {
        ForwardingStatus {
            addresses: self
                .forwarding
                .moved
                .values()
                .filter(|moved| moved.unknown != UnknownConnections::Dropped)
                .count(),
            packets: self.plan.forwarded(),
            error: self.error().map(str::to_owned),
        }
    }

    fn error(&self) -> Option<&str> {
        self.refused.as_ref().map(|(_, error)| error.as_str())
    }

    /// Returns when there is something to do if nothing changes.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        let looks = self.plan.hops().next().is_some().then(|| self.next_look.max(now));
        looks.into_iter().chain(self.strays_due).chain(self.plan.due(now)).min()
    }

    /// Returns when to check whether a node that stopped sending has answered.
    pub(super) fn answer_due(&self, now: Time) -> Option<Time> {
        self.questions.due(now)
    }

    /// VIPs to which connections may go that began elsewhere, with the time since when they are here, if it is time to look
    /// whether the kernel takes one for another that is over.
    pub(super) fn strays(&mut self, now: Time) -> Option<BTreeMap<IpAddr, Duration>> {
        if self.strays_due.is_some_and(|due| now < due) {
            return None;
        }
        let had_for = self.plan.had_for(now);
        let is_busy = had_for.values().any(|time| *time < BUSY_TIME);
        let pause = if is_busy { STRAYS_INTERVAL } else { LOOK_INTERVAL };
        self.strays_due = (!had_for.is_empty()).then(|| now + pause);
        self.strays_due.map(|_| had_for)
    }

    /// Returns true if it is time to read how much was forwarded.
    pub(super) fn wants_count(&self, now: Time) -> bool {
        self.plan.hops().next().is_some() && now >= self.next_look
    }

    fn is_possible(&self) -> bool {
        self.refused.is_none()
    }

    /// Installs what is new in the kernel, and checks each second whether rules and nodes are still there.
    fn look(&mut self, now: Time) {
        let led = self.plan.led();
        let new = led.iter().any(|((hop, number), vips)| {
            let told = self.told.get(&key_of((*hop, *number)));
            told.is_none_or(|(told, known)| told != hop || !vips.is_subset(known))
        });
        if !new && (led.is_empty() || now < self.next_look) {
            return;
        }
        if let Some((until, _)) = self.refused.as_ref().filter(|(until, _)| now < *until) {
            self.next_look = *until;
            return;
        }
        let refused = match self.lead(&led) {
            Ok(refusal) => refusal,
            Err(error) => Some(error.to_string()),
        };
        self.next_look = now + LOOK_INTERVAL;
        if let Some(error) = refused {
            if self.error() != Some(error.as_str()) {
                tracing::warn!(
                    error,
                    "planned moves break connections: they cannot be forwarded to the node that has them"
                );
            }
            self.refused = Some((now + RETRY, error));
            return;
        }
        if self.refused.take().is_some() {
            tracing::info!("connections of addresses that are handed over are forwarded");
        }
        let hops: Vec<(NextHop, u32)> = led.into_keys().collect();
        self.bury_the_dead(&hops, now);
    }

    /// Leads marked packets to these VIPs to these nodes. Returns the reason if that cannot be.
    fn lead(
        &mut self,
        led: &BTreeMap<(NextHop, u32), BTreeSet<IpAddr>>,
    ) -> Result<Option<String>, NetlinkError> {
        if fs::read_to_string(PICKS_UP_CONNECTIONS).is_ok_and(|value| value.trim() == "0") {
            return Ok(Some(format!(
                "{PICKS_UP_CONNECTIONS} is 0, so that this node takes packets of connections that it did not see begin for \
                 invalid: set it to 1"
            )));
        }
        let owner = self.owner;
        self.looks = self.looks.wrapping_add(1);
        let (mut orders, mut counts) = (Vec::new(), Vec::new());
        for ((hop, number), vips) in led {
            let told = self.told.get(&key_of((*hop, *number))).filter(|(told, _)| told == hop);
            let own = owner.lead_to(*hop, *number, due(vips, told.map(|(_, vips)| vips), self.looks));
            counts.push(own.len());
            orders.extend(own);
        }
        let mut answers = self.route.with(|route| route.batch(orders))?.into_iter();
        for (((hop, number), vips), count) in led.iter().zip(counts) {
            let own: Vec<_> = answers.by_ref().take(count).collect();
            let refusal = own.iter().find_map(|answer| match answer {
                Err(refusal) if refusal.errno != Errno::EEXIST => Some(refusal),
                Ok(()) | Err(_) => None,
            });
            match refusal {
                None => self.note_told((*hop, *number), vips),
                // The interface has gone, and with it the LAN on which the node was.
                Some(refusal) if matches!(refusal.errno, Errno::ENODEV | Errno::ENETDOWN | Errno::EINVAL) => {
                    tracing::debug!(%refusal, peer = %hop.address, "no way to the node that handed over");
                    self.told.remove(&key_of((*hop, *number)));
                }
                Some(refusal) => return Ok(Some(format!("routing rules for marked packets: {refusal}"))),
            }
        }
        Ok(None)
    }

    fn note_told(&mut self, led: (NextHop, u32), vips: &BTreeSet<IpAddr>) {
        let (told, known) = self.told.entry(key_of(led)).or_insert_with(|| (led.0, BTreeSet::new()));
        *told = led.0;
        // What is over is still there, until it is released.
        known.extend(vips.iter().copied());
    }

    /// Doubts nodes whose place another has taken in some virtual router: if they died, the kernel would notice only in seconds.
    fn doubt_replaced(&mut self, requests: &[BindingRequest]) {
        let mut before = std::mem::take(&mut self.heard_from);
        for request in requests {
            let key = &request.handle.key;
            let (last, heard) = (before.remove(key), request.heard_from);
            if let Some(last) = last.filter(|last| heard != Some(*last)) {
                self.plan.doubt(last);
            }
            self.heard_from.extend(heard.map(|peer| (key.clone(), peer)));
        }
    }

    /// Asks nodes that stopped sending, before this node takes their place if that is expected, and records the answers in the plan.
    fn settle_doubts(&mut self, requests: &[BindingRequest], now: Time) {
        let doubted: Vec<NextHop> = self.plan.doubted().collect();
        self.questions.ask_only(doubted.iter().copied().chain(missed(requests)).collect(), now);
        for hop in self.questions.open(now) {
            let NextHop { interface, address } = hop;
            // What cannot be asked does not answer.
            let answered = self.questions.is_asked(hop)
                && self.route.with(|route| route.has_answered(interface, address)).unwrap_or(false);
            if !answered {
                let _ = self.route.with(|route| route.ask_host(interface, address));
            }
            self.questions.note(hop, answered, now);
        }
        for hop in doubted {
            let Some(lives) = self.questions.lives(hop, now) else { continue };
            if lives {
                tracing::info!(peer = %hop.address, "a peer is Active no more, but its node lives: its connections are forwarded to it");
            } else {
                tracing::info!(peer = %hop.address, "a peer is Active no more, and its node does not answer: its connections are reset");
            }
            self.plan.note_answer(hop, lives);
        }
    }

    /// Ends forwarding to nodes that no longer answer: packets sent to them are lost, and clients had better get a reset.
    fn bury_the_dead(&mut self, hops: &[(NextHop, u32)], now: Time) {
        for (hop, _) in hops {
            if self.plan.is_silent(*hop) {
                continue;
            }
            let reachable = self.route.with(|route| route.is_reachable(hop.interface, hop.address));
            if let Ok(Some(false)) = reachable {
                // It may come back.
                let _ = self.route.with(|route| route.ask_host(hop.interface, hop.address));
            }
            if self.plan.note_reachable(*hop, reachable.unwrap_or(None)) {
                say_dead(*hop);
            }
        }
        self.plan.expire(now);
    }
}

fn say_dead(hop: NextHop) {
    tracing::info!(
        peer = %hop.address,
        "a node that has connections of addresses no longer answers: they are reset"
    );
}

/// Returns the VIPs whose routes are to be written now: those not installed yet, and a part of the others in turn, as another process may
/// have removed their routes.
fn due(
    vips: &BTreeSet<IpAddr>,
    told: Option<&BTreeSet<IpAddr>>,
    looks: usize,
) -> impl Iterator<Item = IpAddr> + use<> {
    let is_told = |vip: &IpAddr| told.is_some_and(|told| told.contains(vip));
    let new: Vec<IpAddr> = vips.iter().filter(|vip| !is_told(vip)).copied().collect();
    let turn = looks.checked_rem(vips.len().div_ceil(ROUTES_A_LOOK)).unwrap_or_default();
    let again = vips.iter().skip(turn.saturating_mul(ROUTES_A_LOOK)).take(ROUTES_A_LOOK);
    let again: Vec<IpAddr> = again.filter(|vip| is_told(vip)).copied().collect();
    new.into_iter().chain(again)
}

fn key_of((hop, number): (NextHop, u32)) -> (Family, u32) {
    (Family::of(hop.address), number)
}

/// Nodes that are Active as far as is known and of which two adverts are missing: soon this node or another takes their place.
fn missed(requests: &[BindingRequest]) -> impl Iterator<Item = NextHop> {
    requests.iter().filter(|request| forwards(&request.plan)).filter_map(|request| {
        let interface = request.plan.link.as_ref()?.index;
        Some(NextHop { interface, address: request.missing? })
    })
}

/// Returns true if connections to its VIPs that began elsewhere are forwarded: NAT rules take them, and the configuration permits it.
fn forwards(plan: &Plan) -> bool {
    plan.hold == Hold::Respond && plan.forward_connections
}

/// The VIPs that this node serves and that NAT rules take: what is bound to an interface may be a socket's.
pub(super) fn served<'a>(
    requests: impl IntoIterator<Item = &'a BindingRequest>,
) -> impl Iterator<Item = ServedVip> {
    let served = requests.into_iter().filter(|request| request.serves && request.plan.hold == Hold::Respond);
    served.flat_map(|request| {
        let interface = request.plan.link.as_ref().map(|link| link.index);
        let (takeover, by) = (request.takeover, request.handed_over_by);
        request
            .addresses()
            .filter_map(move |vip| Some(ServedVip { vip, interface: interface?, takeover, by }))
    })
}
