//! Asks the servers of shared addresses whether they live, and directs the lots of those that do not to others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use windlass_dataplane::marked_ways::NextHop;
use windlass_dataplane::sharing::{ByShare, Share, Shares, SharingLink};
use windlass_kernel::netlink::KeptRouteSocket;
use windlass_vrrp::Time;

use super::liveness::Liveness;

/// Time for which a node that was away asks the nodes that served its lots meanwhile about connections.
const AWAY_WINDOW: Duration = Duration::from_hours(1);

/// Shares with others in the place of servers that are out.
#[derive(Default)]
struct Substituted {
    /// Shares that it follows from.
    of: Arc<Shares>,
    /// Servers that are out: silent ones and filtered ones.
    out: [BTreeSet<IpAddr>; 2],
    by_share: ByShare<Arc<Share>>,
    shares: Arc<Shares>,
}

impl Substituted {
    fn follow(&mut self, shares: &Arc<Shares>) {
        let [silent, filtered] = &self.out;
        let all = self.by_share.follow(shares, |_, share| Arc::new(share.without(silent, filtered)));
        let services = all.map(|(service, share)| (service, Arc::clone(share))).collect();
        self.shares = Arc::new(Shares { peers: shares.peers.clone(), services });
        self.of = Arc::clone(shares);
    }
}

/// Servers that are asked, and what follows from their answers.
#[derive(Default)]
pub(super) struct Watch {
    liveness: Liveness,
    /// Servers with lots, each with one of its shared addresses, and the shares that they follow from.
    serving: Option<(Arc<Shares>, BTreeMap<IpAddr, IpAddr>)>,
    /// `None` while no server is out.
    substituted: Option<Substituted>,
    /// End of the time for which other nodes may have connections of this node's lots.
    away_until: Option<Time>,
    /// Servers that did not answer at the last round.
    silent: BTreeSet<IpAddr>,
}

impl Watch {
    /// Asks the servers, if this node directs packets, and looks for their answers.
    pub(super) fn ask(
        &mut self,
        shares: &Arc<Shares>,
        links: &BTreeMap<String, SharingLink>,
        is_cut: impl Fn(&String) -> bool,
        directs: bool,
        route: &mut KeptRouteSocket,
        now: Time,
    ) {
        self.serving.take_if(|(of, _)| !Arc::ptr_eq(of, shares));
        let (_, serving) = self.serving.get_or_insert_with(|| {
            let nodes = shares
                .services
                .iter()
                .flat_map(|((shared, _), share)| share.serving().into_keys().map(|server| (server, *shared)));
            (Arc::clone(shares), nodes.collect())
        });
        // That nothing comes by an interface without a carrier proves nothing of the servers.
        let hops = links.iter().filter(|(name, _)| directs && !is_cut(name)).flat_map(|(_, link)| {
            let asked = link.peers.keys().filter(|peer| serving.contains_key(*peer));
            asked.map(|address| NextHop { interface: link.index, address: *address })
        });
        self.liveness.ask_only(&hops.collect());
        for (hop, is_due) in self.liveness.open(now) {
            let NextHop { interface, address } = hop;
            let answered = route.with(|route| {
                let answered = route.has_answered(interface, address)?;
                route.ask_host(interface, address)?;
                Ok(answered)
            });
            if let Err(error) = &answered {
                tracing::debug!(%error, %address, "cannot ask a server whether it lives");
            }
            self.liveness.note(hop, answered.ok().filter(|_| is_due), now);
        }
        if links.keys().any(is_cut) || self.liveness.is_cut_off() {
            self.away_until = Some(now + AWAY_WINDOW);
        }
        self.report();
    }

    fn report(&mut self) {
        let silent = self.liveness.silent();
        for server in silent.difference(&self.silent) {
            tracing::warn!(%server, "a server of shared addresses does not answer: other nodes serve its lots");
        }
        for server in self.silent.difference(&silent) {
            tracing::info!(%server, "a server of shared addresses answers again, or is asked no more");
        }
        self.silent = silent;
    }

    /// Returns the servers that do not answer.
    pub(super) fn silent(&self) -> &BTreeSet<IpAddr> {
        &self.silent
    }

    /// Returns the servers that answer again and whose lots other nodes still serve.
    pub(super) fn returning(&self, now: Time) -> BTreeSet<IpAddr> {
        self.liveness.returning(now)
    }

    /// Returns true if other nodes may have connections of this node's lots, because it was away.
    pub(super) fn was_away(&self, now: Time) -> bool {
        self.away_until.is_some_and(|until| now < until)
    }

    /// Returns the servers with lots, each with one of its shared addresses.
    pub(super) fn serving(&self) -> Option<&BTreeMap<IpAddr, IpAddr>> {
        self.serving.as_ref().map(|(_, serving)| serving)
    }

    /// Returns the shares with others in the place of the servers that are out, among them the `filtered` ones.
    pub(super) fn substituted(
        &mut self,
        shares: &Arc<Shares>,
        filtered: &BTreeSet<IpAddr>,
        now: Time,
    ) -> Arc<Shares> {
        let mut silent = self.liveness.returning(now);
        silent.extend(&self.silent);
        if silent.is_empty() && filtered.is_empty() {
            self.substituted = None;
            return Arc::clone(shares);
        }
        let out = [silent, filtered.clone()];
        self.substituted.take_if(|known| known.out != out);
        let known = self.substituted.get_or_insert_with(|| Substituted { out, ..Substituted::default() });
        if !Arc::ptr_eq(&known.of, shares) {
            known.follow(shares);
        }
        Arc::clone(&known.shares)
    }

    /// Returns when there is a server to ask.
    pub(super) fn due(&self) -> Option<Time> {
        self.liveness.due()
    }
}
