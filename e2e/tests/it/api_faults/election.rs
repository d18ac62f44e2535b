//! Leader election while leaders freeze and hands write into the lease.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use windlass_e2e::{Lab, await_that, scenario};

use super::candidates::Candidates;
use super::{CALM, Observer, await_served, few_events, make, names, remove};
use crate::setup::{LIMIT, lab};

const LEASE: &str = "cloud-controller-manager";
/// Seconds that a candidate of this test writes.
const DURATION: i32 = 5;

// shows: ccm-contract E-04, E-05
#[test]
fn leaders_that_freeze_or_are_robbed_end_by_themselves_and_no_address_changes() -> anyhow::Result<()> {
    scenario("election-faults", lab(), async |lab| {
        lab.install_manifests().await?;
        let mut candidates = Candidates::start(lab).await?;
        let observer = Observer::start(lab).await?;

        frozen(lab, &mut candidates).await.context("leaders that freeze")?;
        edited(lab, &mut candidates).await.context("nonsense in the lease")?;
        robbed(lab, &mut candidates).await.context("a lease that is taken away")?;

        let last = names("last", 3);
        make(lab, &last).await?;
        await_served(lab, &last).await?;
        lab.await_order(CALM).await?;
        candidates.logs_are_short()?;
        few_events(lab).await?;
        observer.finish().await
    })
}

/// The leader freezes in the midst of its work, and wakes when another has done it.
async fn frozen(lab: &Lab, candidates: &mut Candidates<'_>) -> anyhow::Result<()> {
    let old = names("old", 4);
    make(lab, &old).await?;
    await_served(lab, &old).await?;
    let leader = candidates.leader().await?;
    let begun = names("begun", 8);
    make(lab, &begun).await?;
    candidates.freeze(&leader).await?;
    let during = names("during", 8);
    make(lab, &during).await?;
    remove(lab, &old).await?;
    candidates.leader_but(Some(&leader)).await?;
    await_served(lab, &begun).await?;
    await_served(lab, &during).await?;
    // And something to do for the one that wakes, if it could.
    let late = names("late", 8);
    make(lab, &late).await?;
    candidates.thaw(&leader).await?;
    let words = candidates.await_lost(&leader).await?;
    ensure!(words.contains("did not get to run") || words.contains("was not renewed"), "{words}");
    await_served(lab, &late).await?;
    lab.await_order(CALM).await?;
    candidates.refill()
}

/// Whatever is written into the lease but another holder, somebody goes on to lead.
async fn edited(lab: &Lab, candidates: &mut Candidates<'_>) -> anyhow::Result<()> {
    let nonsense = [
        json!({"spec": {"leaseDurationSeconds": -5}}),
        json!({"spec": {"leaseDurationSeconds": 0}}),
        json!({"spec": {"leaseTransitions": -1}}),
        json!({"spec": {"leaseDurationSeconds": i32::MAX, "leaseTransitions": i32::MAX}}),
        json!({"spec": {
            "leaseDurationSeconds": 1,
            "acquireTime": "0001-01-01T00:00:00.000000Z", "renewTime": "9999-12-31T23:59:59.999999Z",
        }}),
        json!({"spec": {
            "leaseDurationSeconds": 1,
            "acquireTime": "0000-01-01T00:00:00.000000+14:00", "renewTime": "9999-12-31T23:59:59.999999-14:00",
        }}),
        json!({"spec": {"leaseDurationSeconds": null, "acquireTime": null, "renewTime": null}}),
        json!({"spec": {"leaseDurationSeconds": 1, "holderIdentity": ""}}),
        json!({"spec": {"leaseDurationSeconds": null, "holderIdentity": null}}),
        json!({"spec": {"leaseDurationSeconds": 1, "strategy": "Nonsense", "preferredHolder": "nobody"}}),
        json!({"spec": null}),
        json!({"spec": {"leaseDurationSeconds": 1},
            "metadata": {"annotations": {"note": "x".repeat(100_000)}, "finalizers": ["example.com/theirs"]}}),
    ];
    let mut refused = Vec::new();
    for edit in &nonsense {
        if let Err(error) = edit_lease(lab, edit).await {
            refused.push(format!("{error:#}").chars().take(200).collect::<String>());
            continue;
        }
        goes_on(lab, candidates)
            .await
            .with_context(|| edit.to_string().chars().take(300).collect::<String>())?;
    }
    ensure!(refused.len() <= 4, "the API server refuses more than it should: {refused:#?}");
    // Deleted: first held back by somebody's finalizer, then for good.
    for edit in [None, Some(json!({"metadata": {"finalizers": null}}))] {
        match edit {
            None => drop(leases(lab).delete(LEASE, &DeleteParams::default()).await?),
            Some(edit) => edit_lease(lab, &edit).await?,
        }
        goes_on(lab, candidates).await.context("the lease was deleted")?;
    }
    Ok(())
}

/// Somebody leads, renews and writes what a lease has to say.
async fn goes_on(lab: &Lab, candidates: &mut Candidates<'_>) -> anyhow::Result<()> {
    let mut version = None;
    await_that("the lease is renewed twice, in order", LIMIT, async || {
        let lease = leases(lab).get(LEASE).await?;
        let spec = &lease.data["spec"];
        ensure!(spec["leaseDurationSeconds"] == DURATION, "it is {spec}");
        ensure!(spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty()), "it is {spec}");
        let before = version.replace(lease.metadata.resource_version.clone());
        Ok((before.is_some() && before != version).then_some(()))
    })
    .await?;
    candidates.leader().await?;
    candidates.refill()
}

/// Others who take the lease: the leader ends, and says so in few words; their turn ends.
async fn robbed(lab: &Lab, candidates: &mut Candidates<'_>) -> anyhow::Result<()> {
    let monster = "who\u{1b}[31m\n".repeat(10_000);
    for (holder, seconds, said) in
        [("by-hand", 1, "is held by by-hand now"), (&*monster, 1, "more characters)")]
    {
        let leader = candidates.leader().await?;
        edit_lease(lab, &json!({"spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds}}))
            .await?;
        let words = candidates.await_lost(&leader).await?;
        ensure!(words.contains(said) && words.len() < 500, "{words}");
        candidates.leader_but(Some(&leader)).await?;
        candidates.refill()?;
    }
    // For decades: until somebody deletes it (or for an hour).
    let leader = candidates.leader().await?;
    edit_lease(lab, &json!({"spec": {"holderIdentity": monster, "leaseDurationSeconds": i32::MAX}})).await?;
    candidates.await_lost(&leader).await?;
    candidates.refill()?;
    candidates.await_said("more characters)").await?;
    leases(lab).delete(LEASE, &DeleteParams::default()).await?;
    candidates.leader().await.map(drop)
}

/// The leases as they are, which no type of ours need be able to hold.
fn leases(lab: &Lab) -> Api<DynamicObject> {
    Api::namespaced_with(lab.client(), "kube-system", &ApiResource::erase::<Lease>(&()))
}

async fn edit_lease(lab: &Lab, edit: &Value) -> anyhow::Result<()> {
    leases(lab).patch(LEASE, &PatchParams::default(), &Patch::Merge(edit)).await?;
    Ok(())
}
