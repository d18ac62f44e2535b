//! Senders of the routes: Windlass, and Debian's FRR as the floor.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_engine::bgp::session::{Config, ExpectedAs};
use windlass_engine::bgp::wire::Attributes;
use windlass_engine::bgp::{Asn, Family, HoldTime, Prefix, RouterId};
use windlass_engine::{Endpoint, Engine, Options, PeerConfig, Speaker};

use crate::lab::{Host, await_some};
use crate::speaker::makers::{EXTERNAL, OWN};
use crate::speaker::router::Router;

/// A speaker with one session, to the router of a maker.
pub(crate) trait Sender {
    const NAME: &str;
    /// True if it leaves in order when it is dropped. Routers keep the routes of an FRR that is killed (graceful restart).
    const LEAVES: bool;

    /// Starts it without a route to announce; `all` are those that it is to have later.
    fn start(host: &Host, all: &[String]) -> Self;
    /// Announces all of them.
    fn announce_all(&self);
    /// Announces one more.
    fn announce_one(&self, prefix: &str);
}

pub(crate) struct Windlass {
    engine: Engine,
    all: BTreeSet<Prefix>,
}

impl Windlass {
    fn speak(&self, announced: impl Iterator<Item = Prefix>) {
        let session = Config {
            local_as: Asn::new(OWN).unwrap(),
            router_id: RouterId::new([192, 0, 2, 1].into()).unwrap(),
            expected_as: ExpectedAs::External,
            families: Family::ALL.into(),
            hold_time: HoldTime::new(90).unwrap(),
            keepalive: None,
            extended_next_hop: false,
        };
        let endpoint = Endpoint::Address { address: EXTERNAL.router.parse().unwrap(), interface: None };
        let attributes = Arc::new(Attributes::default());
        let routes = Arc::new(announced.map(|prefix| (prefix, Arc::clone(&attributes))).collect());
        self.engine.speak(Speaker {
            peers: [("router".to_owned(), PeerConfig::new(session, endpoint))].into(),
            routes: [("router".to_owned(), routes)].into(),
        });
    }
}

fn prefix(text: &str) -> Prefix {
    Prefix::new(text.parse().unwrap()).unwrap()
}

impl Sender for Windlass {
    const NAME: &str = "windlass";
    const LEAVES: bool = true;

    fn start(host: &Host, all: &[String]) -> Self {
        let engine = host.run(|| Engine::start(Options::new(|_| ())).expect("start the engine"));
        let windlass = Self { engine, all: all.iter().map(|text| prefix(text)).collect() };
        windlass.speak(std::iter::empty());
        await_some("session", || {
            let sessions = windlass.engine.speaker_status();
            sessions.iter().any(|session| session.is_acknowledged).then_some(())
        });
        windlass
    }

    fn announce_all(&self) {
        self.speak(self.all.iter().copied());
    }

    fn announce_one(&self, one: &str) {
        self.speak(self.all.iter().copied().chain([prefix(one)]));
    }
}

pub(crate) struct Frr(Router);

impl Frr {
    fn configure(&self, line: &str) {
        self.0.vtysh(&["configure", &format!("router bgp {OWN}"), "address-family ipv4 unicast", line]);
    }
}

impl Sender for Frr {
    const NAME: &str = "frr";
    const LEAVES: bool = false;

    fn start(host: &Host, all: &[String]) -> Self {
        let networks = all.join("\nnetwork ");
        let router = EXTERNAL.router;
        // Without delay of changed filters, which Windlass has none of.
        let lines = format!(
            "no bgp network import-check
             neighbor {router} remote-as {}
             neighbor {router} timers connect 1
             address-family ipv4 unicast
             neighbor {router} route-map none out
             network {networks}
             exit-address-family
             exit
             bgp route-map delay-timer 0
             route-map none deny 10",
            crate::speaker::makers::ROUTER
        );
        let frr = Self(Router::start(host, OWN, &lines));
        await_some("FRR's session", || (frr.0.neighbour(router)["bgpState"] == "Established").then_some(()));
        frr
    }

    fn announce_all(&self) {
        self.configure(&format!("no neighbor {} route-map none out", EXTERNAL.router));
    }

    fn announce_one(&self, prefix: &str) {
        self.configure(&format!("network {prefix}"));
    }
}
