//! A lab with setups in it, and what their clients see of each fault.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use windlass_e2e::{KeptOptions, Lab, Probe, Protocol, await_that};

use super::{
    fault::{Backend, Fault},
    place::{FIRST, Family, LIMIT, Place},
    report::Sample,
    setup::{Setup, Site},
    started::Started,
};
use crate::system::CLIENT;

/// Least age of connections before the fault: more than a second.
const AGE: Duration = Duration::from_millis(1500);
/// Time that a client continues once the address has moved: what breaks late is to be seen, too.
const AFTER: Duration = Duration::from_secs(2);
/// From one attempt to the next of the client that opens a connection for each request.
const ATTEMPT: Duration = Duration::from_millis(10);

/// Plan of what is measured in one lab.
pub(crate) struct Plan {
    pub(crate) site: Site,
    pub(crate) setups: Vec<Setup>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) family: Family,
    pub(crate) rounds: usize,
    /// Connections to each backend of each setup, and how often the busy ones ask.
    pub(crate) kept: KeptOptions,
}

/// All faults of a plan.
pub(crate) async fn run(lab: &Lab, plan: &Plan) -> anyhow::Result<Vec<Sample>> {
    for place in Place::ALL {
        match place {
            Place::First | Place::Second | Place::Third => {
                lab.backend(place.backend(), &[place.node()]).await?;
            }
            Place::Host => lab.host_backend(place.backend(), &[place.node()]).await?,
        }
    }
    let started = Started::start(lab, plan.site, plan.family, &plan.setups).await?;
    let mut scene = Scene { lab, plan, started, is_off: false };
    for (_, address) in scene.started.addresses() {
        for place in Place::ALL {
            await_answer(lab, *address, place).await?;
        }
    }
    let mut samples = Vec::new();
    for round in 1..=plan.rounds {
        for fault in &plan.faults {
            let what = || format!("{}: {}", plan.site.name(), fault.name());
            let seen = scene.measure(*fault).await.with_context(what)?;
            for sample in &seen {
                println!("bench: round {round}: {sample}");
            }
            samples.extend(seen);
        }
    }
    Ok(samples)
}

struct Scene<'a> {
    lab: &'a Lab,
    plan: &'a Plan,
    started: Started,
    /// The first node has been switched off.
    is_off: bool,
}

impl Scene<'_> {
    async fn measure(&mut self, fault: Fault) -> anyhow::Result<Vec<Sample>> {
        self.prepare(fault).await?;
        let backends = Backend::of(fault);
        let targets: Vec<SocketAddr> = self
            .started
            .addresses()
            .iter()
            .flat_map(|(_, address)| backends.iter().map(|(_, place)| (*address, place.port()).into()))
            .collect();
        let kept = self.lab.keep_connections(CLIENT, &targets, self.plan.kept).await?;
        let probes = self.probes()?;
        tokio::time::sleep(AGE).await;
        kept.watch();
        self.started.inflict(self.lab, fault).await?;
        self.is_off = matches!(fault, Fault::Killed);
        let [_, after] = fault.nodes();
        self.await_owner(after).await?;
        tokio::time::sleep(AFTER).await;
        let mut outages = Vec::new();
        for probe in probes {
            let seen = probe.stop()?;
            ensure!(seen.answered > 0, "nobody ever answered a new connection");
            outages.push(seen.longest_gap);
        }
        let mut seen = kept.stop()?.into_iter();
        self.started.undo(self.lab, fault).await?;
        let mut samples = Vec::new();
        for ((setup, _), outage) in self.started.addresses().iter().zip(outages) {
            for (backend, _) in &backends {
                let connections = seen.next().context("a target without connections")?;
                samples.push(Sample { setup: *setup, fault, backend: *backend, connections, outage });
            }
        }
        Ok(samples)
    }

    /// All is well, or for a node that is to come back: it is off.
    async fn prepare(&mut self, fault: Fault) -> anyhow::Result<()> {
        let [before, after] = fault.nodes();
        match (fault, self.is_off) {
            (Fault::Back, false) => {
                self.await_owner(FIRST).await?;
                self.lab.node(FIRST)?.power_off().await?;
                self.is_off = true;
            }
            (Fault::Cable | Fault::Frozen | Fault::Drain | Fault::Killed, true) => {
                self.started.inflict(self.lab, Fault::Back).await?;
                self.is_off = false;
            }
            (Fault::Back, true) | (Fault::Cable | Fault::Frozen | Fault::Drain | Fault::Killed, false) => {}
        }
        for (_, address) in self.started.addresses() {
            await_answer(self.lab, *address, Place::Third).await?;
        }
        self.await_owner(before).await?;
        match fault {
            Fault::Back => Ok(()),
            Fault::Cable | Fault::Frozen | Fault::Drain | Fault::Killed => {
                self.started.await_ready(self.lab, after).await
            }
        }
    }

    /// A client for each setup that opens connections to the backend on the third node, which no fault befalls.
    fn probes(&self) -> anyhow::Result<Vec<Probe>> {
        let probe = |(_, address): &(Setup, IpAddr)| {
            self.lab.probe(CLIENT, Protocol::Tcp, *address, Place::Third.port(), ATTEMPT)
        };
        self.started.addresses().iter().map(probe).collect()
    }

    /// Waits until the client has been told that this node has all addresses. It is not asked for: keepalived leaves its addresses to
    /// the kernel, so that the node of one that is frozen or killed would answer, too.
    async fn await_owner(&self, node: &str) -> anyhow::Result<()> {
        let mac = self.lab.node(node)?.mac().to_string();
        for (setup, address) in self.started.addresses() {
            await_that(&format!("{node} has {address} of {}", setup.name()), LIMIT, async || {
                let known = self.lab.exec(CLIENT, &["ip", "neigh", "show", &address.to_string()]).await?;
                ensure!(known.contains(&mac), "{CLIENT} knows it as {known:?}");
                Ok(Some(()))
            })
            .await?;
        }
        Ok(())
    }
}

/// Waits until the client is answered by the server of a place.
async fn await_answer(lab: &Lab, address: IpAddr, place: Place) -> anyhow::Result<()> {
    await_that(&format!("{place:?} answers at {address}"), LIMIT, async || {
        let answer = lab.curl(CLIENT, address, place.port()).await?;
        ensure!(answer.starts_with(place.backend()), "{answer} answers");
        Ok(Some(()))
    })
    .await
}
