//! A group of two routers, its client, and what befalls it.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::echo::Client;
use crate::node::{Node, advertises_from, describe};
use crate::setup::{Fault, Group};
use crate::shared::adverts::Adverts;
use crate::shared::site::{Cable, Site, vip};

/// Host that takes no part.
const CLIENT: usize = 2;
/// So many answers one after another from one node: it serves.
const SERVES: usize = 100;

/// One fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Longest time between two answers, in milliseconds.
    pub(crate) gap_ms: f64,
    /// Requests that nobody answered.
    pub(crate) lost: usize,
}

/// A group that runs.
pub(crate) struct Running {
    group: Group,
    nodes: [Node; 2],
    cable: Cable,
    adverts: Adverts,
    client: Client,
    site: Site,
}

impl Running {
    pub(crate) fn start(group: Group) -> Self {
        let site = Site::new(3, 1);
        let nodes = [0, 1].map(|number| Node::start(&site.hosts[number], group, number));
        Self {
            group,
            nodes,
            cable: site.cable(0, 0),
            adverts: Adverts::on(&site.hosts[CLIENT], group.family),
            client: Client::start(&site.hosts[CLIENT], vip(group.family, 0, 1)),
            site,
        }
    }

    /// Waits until the preferred node alone advertises and serves.
    fn settle(&self) -> Result<(), String> {
        let Self { group, adverts, client, .. } = self;
        let deadline = Instant::now() + group.interval() * 15 + Duration::from_secs(15);
        let preferred = advertises_from(*group, 0);
        let mut in_a_row = 0;
        let mut since = Instant::now();
        adverts.forget();
        while let Some(heard) = adverts.next(deadline) {
            if heard.source == preferred && heard.priority > 0 {
                in_a_row += 1;
            } else {
                (in_a_row, since) = (0, Instant::now());
            }
            if in_a_row >= 2 && client.answered_by(0, SERVES, since) {
                return Ok(());
            }
        }
        Err(format!("{}: node 0 did not become the Active that serves", describe(*group)))
    }

    /// Lets the fault befall the Active when this share of an interval has gone by since an advert. Everything is as before
    /// when it returns.
    pub(crate) fn befall(&mut self, fault: Fault, moment: f64) -> Result<Measured, String> {
        self.settle()?;
        let Self { group, adverts, client, .. } = &*self;
        let patience = group.interval() * 10 + Duration::from_secs(5);
        client.forget();
        std::thread::sleep(Duration::from_millis(20));
        adverts.forget();
        let silent = || format!("{}: no adverts", describe(*group));
        let heard = adverts.next(Instant::now() + patience).ok_or_else(silent)?;
        let due = heard.at + group.interval().mul_f64(moment);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let began = Instant::now();
        let failed = |error: std::io::Error| format!("{}: {}: {error}", describe(*group), fault.name());
        match fault {
            Fault::CablePull => self.cable.pull(),
            Fault::Sigkill => self.nodes[0].signal(Signal::SIGKILL).map_err(failed)?,
            Fault::Sigstop => self.nodes[0].signal(Signal::SIGSTOP).map_err(failed)?,
            Fault::GracefulStop => self.nodes[0].retire().map_err(failed)?,
        }
        let measured = self.successor(began);
        self.mend(fault)?;
        measured.map_err(|reason| format!("{}: {}: {reason}", describe(self.group), fault.name()))
    }

    /// Waits until the other node serves and tells what that took.
    fn successor(&self, began: Instant) -> Result<Measured, String> {
        let Self { group, adverts, client, .. } = self;
        let deadline = began + group.interval() * 10 + Duration::from_secs(5);
        loop {
            let heard = adverts.next(deadline).ok_or("nobody took over")?;
            if heard.source == advertises_from(*group, 1) && heard.priority > 0 {
                break;
            }
        }
        while !client.answered_by(1, SERVES, began) {
            if Instant::now() > deadline {
                return Err("the successor advertises but does not serve".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // The last ones may be on their way.
        let sent_last = Instant::now();
        std::thread::sleep(Duration::from_millis(20));
        Ok(Measured {
            gap_ms: client.longest_gap(began).as_secs_f64() * 1000.0,
            lost: client.unanswered(sent_last),
        })
    }

    fn mend(&mut self, fault: Fault) -> Result<(), String> {
        match fault {
            Fault::CablePull => self.cable.plug(),
            Fault::Sigstop => self.nodes[0].signal(Signal::SIGCONT).map_err(|error| error.to_string())?,
            Fault::Sigkill | Fault::GracefulStop => {
                // The old one goes first, as it is the other's namesake.
                let _ = self.nodes[0].signal(Signal::SIGKILL);
                self.nodes[0] = Node::start(&self.site.hosts[0], self.group, 0);
            }
        }
        Ok(())
    }
}
