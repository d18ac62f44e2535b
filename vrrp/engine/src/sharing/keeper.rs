//! Keeps the table in the kernel as it is to be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_dataplane::sharing::{Shares, Sharing, SharingError, SharingLink};
use windlass_kernel::clock;
use windlass_kernel::interfaces::Interfaces;
use windlass_kernel::netfilter::table::Checked;
use windlass_kernel::netlink::KeptRouteSocket;
use windlass_vrrp::Time;

use super::prover::Prover;
use super::trails::{Surroundings, Tracer, Trails};
use super::watch::Watch;
use crate::status::SharingStatus;

/// Time after which packets are directed by lots that have moved: by then all nodes know the former servers of these lots, so that the new
/// ones pass on what they do not know.
const SETTLE: Duration = Duration::from_millis(500);
/// Time for which the first table waits for the peers' answers: the one that an earlier process left directs meanwhile.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Time between two comparisons of all elements with what was written, and the same as a multiple of the time that the last one took: other
/// programs may change nftables all the time.
const COMPARE_INTERVAL: Duration = Duration::from_secs(5);
const COMPARE_REST: u32 = 50;
/// Time until the next try after the kernel lacked something.
const RETRY: Duration = Duration::from_secs(30);

/// Shares, and links with the peers that are known.
type Inputs = (Arc<Shares>, BTreeMap<String, SharingLink>);

/// The table, and what is known of the peers.
pub(super) struct Keeper<'a> {
    table: &'a str,
    sharing: Option<Sharing>,
    /// True once no table is left by an earlier process, while nothing is shared.
    is_clean: bool,
    /// Shares by which packets are directed, and newer ones with the time from which on they are.
    declared: VecDeque<(Time, Arc<Shares>)>,
    /// Nodes that may have connections of lots.
    tracer: Tracer,
    /// Shares and links that the table was last changed to: its contents take time to compute.
    applied: Option<Inputs>,
    begun: Time,
    watch: Watch,
    prover: Prover,
    route: KeptRouteSocket,
    /// Link-layer addresses of peers by interface and address, as last known. A silent peer may still send.
    known: BTreeMap<(u32, IpAddr), [u8; 6]>,
    compare_at: Time,
    /// Time of the next try after the kernel lacked something.
    retry_at: Option<Time>,
    status: SharingStatus,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(table: &'a str, now: Time) -> Self {
        Self {
            table,
            sharing: None,
            is_clean: false,
            declared: VecDeque::new(),
            tracer: Tracer::default(),
            applied: None,
            begun: now,
            watch: Watch::default(),
            prover: Prover::default(),
            route: KeptRouteSocket::default(),
            known: BTreeMap::new(),
            compare_at: now,
            retry_at: None,
            status: SharingStatus::default(),
        }
    }

    /// Looks for the peers, asks the servers if this node `directs` packets, tests the paths to them, and puts the shares in force or restores
    /// them. Returns the state after that.
    pub(super) fn round(
        &mut self,
        shares: &Arc<Shares>,
        interfaces: &Interfaces,
        directs: bool,
        now: Time,
    ) -> SharingStatus {
        let links = self.links(shares, interfaces);
        let is_cut = |name: &String| interfaces.get(name).is_none_or(|info| !info.carrier);
        self.watch.ask(shares, &links, is_cut, directs, &mut self.route, now);
        if let Some(serving) = self.watch.serving().filter(|_| self.sharing.is_some()) {
            self.prover.round(serving, shares, &links, interfaces, now);
        }
        self.status.filtered.clone_from(self.prover.filtered());
        self.status.silent.clone_from(self.watch.silent());
        self.status.returning = self.watch.returning(now);
        let surroundings = Surroundings {
            links: links.clone(),
            silent: self.status.silent.clone(),
            was_away: self.watch.was_away(now),
        };
        let are_new = !self.tracer.knows(shares);
        let are_moved = self.tracer.note_moves(shares);
        if are_new {
            // First: other nodes will soon send packets here that this one does not know.
            self.tracer.follow(surroundings.clone());
        }
        self.direct(shares, are_moved, &links, now);
        // Last: clients wait for those that take the place of a silent node.
        self.tracer.follow(surroundings);
        self.status.clone()
    }

    /// Puts the shares in force by which packets are directed now.
    fn direct(
        &mut self,
        newest: &Arc<Shares>,
        are_moved: bool,
        links: &BTreeMap<String, SharingLink>,
        now: Time,
    ) {
        let declared = &self.directed(newest, are_moved, now);
        let shares = &self.watch.substituted(declared, self.prover.filtered(), now);
        let waits =
            self.sharing.is_none() && !self.status.unknown_peers.is_empty() && now < self.begun + FIRST_WAIT;
        if waits || self.retry_at.is_some_and(|time| now < time) {
            return;
        }
        let outcome = self.put_in_force(shares, links, now);
        let is_lacking = matches!(outcome, Err(SharingError::Unsupported { .. }));
        self.retry_at = is_lacking.then(|| now + RETRY);
        let error = outcome.err().map(|error| error.to_string());
        match &error {
            None => self.status.in_force = Arc::clone(declared),
            Some(error) if self.status.error.as_ref() != Some(error) => {
                tracing::warn!(error, "packets for shared addresses are not directed as they should be");
            }
            Some(_) => {}
        }
        self.status.error = error;
    }

    /// Returns the shares by which packets are directed now. Lots that have moved from nodes with connections follow later.
    fn directed(&mut self, newest: &Arc<Shares>, are_moved: bool, now: Time) -> Arc<Shares> {
        if !self.declared.back().is_some_and(|(_, shares)| Arc::ptr_eq(shares, newest)) {
            let waits = are_moved && !self.declared.is_empty();
            self.declared.push_back((if waits { now + SETTLE } else { now }, Arc::clone(newest)));
        }
        while self.declared.get(1).is_some_and(|(from, _)| *from <= now) {
            self.declared.pop_front();
        }
        self.declared.front().map_or_else(|| Arc::clone(newest), |(_, shares)| Arc::clone(shares))
    }

    /// Returns when packets are to be directed by newer shares, or a server is to be asked.
    pub(super) fn due(&self) -> Option<Time> {
        self.declared.get(1).map(|(from, _)| *from).into_iter().chain(self.watch.due()).min()
    }

    /// Returns the nodes that may have connections of lots; `None` while no address is shared.
    pub(super) fn trails(&self) -> Option<Arc<Trails>> {
        self.tracer.trails()
    }

    /// Returns true if nothing is shared or was, so that there is nothing to look at.
    pub(super) fn is_idle(&self) -> bool {
        self.is_clean && self.sharing.is_none()
    }

    /// Removes the table.
    pub(super) fn end(&mut self) {
        if let Some(Err(error)) = self.sharing.take().map(Sharing::remove) {
            tracing::warn!(%error, "the table that directs packets for shared addresses stays");
        }
    }

    fn put_in_force(
        &mut self,
        shares: &Arc<Shares>,
        links: &BTreeMap<String, SharingLink>,
        now: Time,
    ) -> Result<(), SharingError> {
        let Some(sharing) = &mut self.sharing else {
            if shares.services.is_empty() {
                if !std::mem::replace(&mut self.is_clean, true) {
                    Sharing::remove_left_over(self.table)?;
                }
                return Ok(());
            }
            self.is_clean = false;
            self.sharing = Some(Sharing::install(self.table, shares, links)?);
            return Ok(());
        };
        self.applied.take_if(|(applied, known)| !Arc::ptr_eq(applied, shares) || known != links);
        if self.applied.is_none() {
            // First: a chain that went with its interface is not missed.
            sharing.update(shares, links)?;
            self.applied = Some((Arc::clone(shares), links.clone()));
        }
        let checked = if now < self.compare_at {
            sharing.quick_check()?
        } else {
            let begun = clock::now();
            let checked = sharing.full_check();
            let took = clock::now().since(begun);
            self.compare_at = now + took.saturating_mul(COMPARE_REST).max(COMPARE_INTERVAL);
            checked?
        };
        if let Checked::Restored { found } = checked {
            tracing::warn!(
                table = self.table,
                found,
                "restored the nftables table that directs packets for shared addresses"
            );
        }
        Ok(())
    }

    /// Returns the interfaces that are there, with the peers that are known.
    fn links(&mut self, shares: &Shares, interfaces: &Interfaces) -> BTreeMap<String, SharingLink> {
        let mut links = BTreeMap::new();
        (self.status.unknown_peers, self.status.missing_interfaces) = (BTreeSet::new(), BTreeSet::new());
        let mut wanted = BTreeSet::new();
        for (name, peers) in &shares.peers {
            let Some(info) = interfaces.get(name) else {
                self.status.missing_interfaces.insert(name.clone());
                continue;
            };
            let mut link = SharingLink { index: info.index, ..SharingLink::default() };
            link.own =
                peers.iter().copied().filter(|peer| info.addresses().any(|own| own == *peer)).collect();
            for peer in peers.difference(&link.own.clone()) {
                wanted.insert((info.index, *peer));
                match self.link_layer_address(info.index, *peer) {
                    Some(address) => drop(link.peers.insert(*peer, address)),
                    None => drop(self.status.unknown_peers.insert(*peer)),
                }
            }
            links.insert(name.clone(), link);
        }
        self.known.retain(|peer, _| wanted.contains(peer));
        links
    }

    /// Returns the link-layer address of a peer, and asks for it if it was never known.
    fn link_layer_address(&mut self, interface: u32, peer: IpAddr) -> Option<[u8; 6]> {
        let found = self.route.with(|route| route.link_layer_address(interface, peer));
        if let Ok(Some(address)) = found {
            self.known.insert((interface, peer), address);
            return Some(address);
        }
        let known = self.known.get(&(interface, peer)).copied();
        if known.is_none()
            && let Err(error) = self.route.with(|route| route.ask_host(interface, peer))
        {
            tracing::debug!(%error, %peer, "cannot ask for the link-layer address of a node");
        }
        known
    }
}
