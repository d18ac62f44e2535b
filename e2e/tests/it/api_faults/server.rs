//! An API server that hangs, dies and comes back, and an etcd that hangs, while Services come and go.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use futures::{future::try_join_all, join};
use windlass_e2e::{ControllerOptions, Lab, Signal, scenario};

use super::{CALM, ELECTION, Observer, await_served, few_events, make, names, remove};
use crate::setup::{LIMIT, lab};

/// Longer than a leader goes on without a renewal.
const FROZEN: Duration = Duration::from_secs(6);
/// Services made before and during each fault.
const EACH: usize = 5;
const CONTROLLERS: [(&str, u16); 2] = [("controller", 10258), ("second", 10268)];

// shows: ccm-contract E-10; field-reports F-06
#[test]
fn api_server_and_etcd_that_hang_or_die_take_no_address_away() -> anyhow::Result<()> {
    scenario("api-faults", lab(), async |lab| {
        lab.install_manifests().await?;
        for controller in CONTROLLERS {
            start(lab, controller)?;
        }
        let observer = Observer::start(lab).await?;
        faults(lab).await?;
        few_events(lab).await?;
        let count = lab.await_order(CALM).await?.services.len();
        ensure!(count > 3 * 2 * EACH, "of the Services that were made {count} are left");
        let answers = ["web", "server-frozen-before-1", "server-killed-during-1", "etcd-frozen-during-1"];
        try_join_all(answers.map(async |name| lab.await_owner("c1", lab.ingress(name, LIMIT).await?).await))
            .await?;
        observer.finish().await
    })
}

async fn faults(lab: &Lab) -> anyhow::Result<()> {
    during(lab, "server-frozen", async || hang(lab, "kube-apiserver").await).await?;
    during(lab, "server-killed", async || {
        lab.stop_api_server().await?;
        lab.start_api_server().await
    })
    .await?;
    during(lab, "etcd-frozen", async || hang(lab, "etcd").await).await
}

/// Stops a process of the control plane in its tracks for a while.
async fn hang(lab: &Lab, process: &str) -> anyhow::Result<()> {
    lab.signal_process("cp", process, Signal::SIGSTOP)?;
    tokio::time::sleep(FROZEN).await;
    lab.signal_process("cp", process, Signal::SIGCONT)
}

/// Services are made just before the fault, and made and deleted during it: afterwards each has what it has to have.
async fn during(
    lab: &Lab,
    name: &str,
    fault: impl AsyncFnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let old = names(&format!("{name}-old"), 3);
    make(lab, &old).await?;
    await_served(lab, &old).await?;
    let before = names(&format!("{name}-before"), EACH);
    make(lab, &before).await?;
    let during = names(&format!("{name}-during"), EACH);
    let (fault, made, removed) = join!(fault(), make(lab, &during), remove(lab, &old));
    fault.and(made).and(removed).with_context(|| name.to_owned())?;
    await_served(lab, &before).await.with_context(|| name.to_owned())?;
    await_served(lab, &during).await.with_context(|| name.to_owned())?;
    Ok(())
}

fn start(lab: &Lab, (name, http_port): (&str, u16)) -> anyhow::Result<()> {
    let flags = ELECTION.map(str::to_owned).into();
    lab.start_controller(ControllerOptions { name: name.into(), http_port, flags })
}
