//! keepalived on the virtual routers of Announcements: one that only listens finds no fault with what the agents send, and one that
//! wants the virtual router disturbs nothing.
//!
//! It listens to IPv6 alone: Debian's keepalived wants RFC 5798's checksum in IPv4, and agents send RFC 9568's (docs/dev/interop.md).

use std::{fs, net::IpAddr};

use anyhow::{Context as _, ensure};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use windlass_api::{NodeNetwork, Transport, VirtualRouter};
use windlass_e2e::{
    ControllerOptions, Keepalived, KeepalivedCounts, Lab, Protocol, SERVICE_PORT, Signal, await_that,
    scenario,
};

use crate::setup::{LIMIT, await_answer, await_ingresses, dual_stack, lab, other, router_of};

const AGENTS: [&str; 2] = ["n1", "n2"];
/// The host of the keepalived.
const PEER: &str = "c1";
/// Name of the Announcement.
const NAME: &str = "lan";
/// 32 bytes in hexadecimal digits.
const KEY: &str = "hex:202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f";
/// Adverts of which none may be wrong.
const ENOUGH: u64 = 10;

/// A setting of `spec.vrrp` and how to tell that a virtual router has it.
struct Setting {
    what: &'static str,
    vrrp: Value,
    has: fn(&VirtualRouter) -> bool,
}

/// By multicast and unsigned, as a keepalived of this version understands it.
fn heard_by_all() -> Vec<Setting> {
    vec![
        Setting { what: "as it is by default", vrrp: json!({}), has: |_| true },
        Setting {
            what: "another interval",
            vrrp: json!({"advertisementIntervalMilliseconds": 50}),
            has: |router| router.spec.advertisement_interval_milliseconds == 50,
        },
        Setting {
            what: "a preemption delay",
            vrrp: json!({"advertisementIntervalMilliseconds": 200, "preemptDelaySeconds": 30}),
            has: |router| router.spec.preempt_delay_seconds == 30,
        },
        Setting {
            what: "a range of VRIDs",
            vrrp: json!({"vridRange": {"first": 200, "last": 220}}),
            has: |router| (200..=220).contains(&router.spec.vrid),
        },
    ]
}

/// What a keepalived of this version hears nothing of, or cannot believe.
fn among_the_nodes() -> Vec<Setting> {
    vec![
        Setting {
            what: "unicast",
            vrrp: json!({"transport": "Unicast"}),
            has: |router| router.spec.transport == Transport::Unicast,
        },
        Setting {
            what: "authentication",
            vrrp: json!({"authentication": {"keyId": 7}}),
            has: |router| router.spec.authentication.is_some_and(|how| how.key_id == 7),
        },
    ]
}

#[test]
fn a_keepalived_that_listens_stays_backup_and_finds_no_fault_with_adverts_of_any_setting()
-> anyhow::Result<()> {
    scenario("announcement-listener", lab(), async |lab| {
        let vips = served(lab).await?;
        for setting in heard_by_all() {
            announce(lab, &vips, &setting).await?;
            listen(lab, vips[1]).await?;
            await_faultless(lab, |counts| counts.received >= ENOUGH).await.with_context(|| setting.what)?;
            lab.stop_keepalived(PEER).await?;
        }
        Ok(())
    })
}

#[test]
fn a_keepalived_that_listens_leaves_the_address_of_an_agent_that_stops_to_the_next_node() -> anyhow::Result<()>
{
    scenario("announcement-resignation", lab(), async |lab| {
        let vips = served(lab).await?;
        // It waits for almost an interval after a resignation, the next node a hundredth of one.
        let slow = Setting {
            what: "an interval of a second",
            vrrp: json!({"advertisementIntervalMilliseconds": 1000}),
            has: |router| router.spec.advertisement_interval_milliseconds == 1000,
        };
        announce(lab, &vips, &slow).await?;
        let vip = vips[1];
        let owner = lab.await_owner(PEER, vip).await?;
        listen(lab, vip).await?;
        await_faultless(lab, |counts| counts.received > 0).await?;
        lab.stop_agent(&owner, Signal::SIGTERM).await?;
        await_faultless(lab, |counts| counts.resignations > 0).await?;
        let next = lab.await_owner_other_than(PEER, vip, &owner).await?;
        ensure!(next == other(&owner), "{next} has {vip}");
        let before = lab.keepalived_counts(PEER).await?.received;
        await_faultless(lab, |counts| counts.received >= before + ENOUGH).await
    })
}

#[test]
fn a_keepalived_that_wants_the_virtual_router_disturbs_no_address_whatever_the_announcement()
-> anyhow::Result<()> {
    scenario("announcement-stranger", lab(), async |lab| {
        let vip = served(lab).await?[0];
        for setting in heard_by_all().into_iter().chain(among_the_nodes()) {
            announce(lab, &[vip], &setting).await?;
            let has_left = |router: &VirtualRouter, before: &VirtualRouter| {
                let is_away = router.spec.vrid != before.spec.vrid;
                (setting.has)(router) && is_away == leaves_its_vrid(before)
            };
            undisturbed(lab, vip, has_left).await.with_context(|| setting.what)?;
        }
        // Nowhere to go.
        let only = Setting {
            what: "a single VRID",
            vrrp: json!({"vridRange": {"first": 230, "last": 230}}),
            has: |router| router.spec.vrid == 230,
        };
        announce(lab, &[vip], &only).await?;
        undisturbed(lab, vip, |router, _| router.spec.vrid == 230).await.with_context(|| only.what)
    })
}

/// Windlass on nodes that have a key, an Announcement, and the addresses of the Service `web`, IPv4 first.
async fn served(lab: &Lab) -> anyhow::Result<Vec<IpAddr>> {
    lab.install_manifests().await?;
    lab.start_controller(ControllerOptions::default())?;
    let keys = lab.folder().join("keys");
    fs::create_dir_all(&keys)?;
    fs::write(keys.join("7"), KEY).context("writing a key")?;
    for node in AGENTS {
        lab.start_agent_with(node, &["--vrrp-keys-dir", &keys.display().to_string()])?;
    }
    lab.announcement(NAME, json!({})).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250", "2001:db8::200-2001:db8::250"]).await?;
    lab.backend("web", &["n3"]).await?;
    lab.load_balancer("web", dual_stack).await?;
    let vips = await_ingresses(lab, "web", 2).await?;
    for vip in &vips {
        await_answer(lab, *vip).await?;
    }
    Ok(vips)
}

/// Lets the Announcement have this setting and no other, and waits until the addresses are announced so.
async fn announce(lab: &Lab, vips: &[IpAddr], setting: &Setting) -> anyhow::Result<()> {
    let mut vrrp = json!({
        "advertisementIntervalMilliseconds": null, "preemptDelaySeconds": null, "transport": null,
        "authentication": null, "vridRange": null,
    });
    for (field, value) in setting.vrrp.as_object().into_iter().flatten() {
        vrrp[field] = value.clone();
    }
    lab.change_announcement(NAME, json!({"vrrp": vrrp})).await?;
    for vip in vips {
        await_router(lab, *vip, setting.has).await.with_context(|| setting.what)?;
    }
    Ok(())
}

/// Waits until the address is on such a virtual router and at the node that is Active in it.
async fn await_router(
    lab: &Lab,
    vip: IpAddr,
    wanted: impl Fn(&VirtualRouter) -> bool,
) -> anyhow::Result<VirtualRouter> {
    await_that(&format!("{vip} is announced as it should be"), LIMIT, async || {
        let router = router_of(lab, vip).await?;
        ensure!(wanted(&router), "{:?}", router.spec);
        let active = router.status.as_ref().and_then(|status| status.active_node.as_deref());
        let active = active.context("nobody is Active")?;
        let owner = lab.await_owner(PEER, vip).await?;
        ensure!(owner == active, "{owner} answers, {active} is Active");
        Ok(Some(router))
    })
    .await
}

/// Returns true for a virtual router that leaves its VRID to a stranger. Nobody else hears what is sent by unicast; a router that signs obeys no stranger;
/// and one that left another VRID to a stranger stays for ten minutes.
fn leaves_its_vrid(router: &VirtualRouter) -> bool {
    let spec = &router.spec;
    spec.transport == Transport::Multicast && spec.authentication.is_none() && router.vrid_changes() == 0
}

/// Starts a keepalived of the lowest priority with the virtual router of an address and that address.
async fn listen(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    let vrid = router_of(lab, vip).await?.spec.vrid;
    // It waits for three of its own intervals until it has heard an advert, and then for three of the Active's.
    lab.start_keepalived(PEER, Keepalived { vrid, priority: 1, interval_ms: 1000, address: vip })
}

/// Waits until the keepalived has counted enough; it was never Active until then, and took no advert for wrong.
async fn await_faultless(lab: &Lab, enough: impl Fn(&KeepalivedCounts) -> bool) -> anyhow::Result<()> {
    let counts = await_that("keepalived has heard enough", LIMIT, async || {
        let counts = lab.keepalived_counts(PEER).await?;
        ensure!(enough(&counts), "{counts:?}");
        Ok(Some(counts))
    })
    .await?;
    ensure!(counts.became_master == 0 && counts.errors == 0, "{counts:?}");
    Ok(())
}

/// Starts a keepalived with the address' virtual router and the highest priority, and waits until it has sent adverts, both nodes
/// have reported it where they hear it, and the address is on a virtual router `as_wanted`, compared with the one before. Its node
/// stays the same, and no answer is missing.
async fn undisturbed(
    lab: &Lab,
    vip: IpAddr,
    as_wanted: impl Fn(&VirtualRouter, &VirtualRouter) -> bool,
) -> anyhow::Result<()> {
    let before = router_of(lab, vip).await?;
    let owner = lab.await_owner(PEER, vip).await?;
    let probe = lab.probe(PEER, Protocol::Udp, vip, SERVICE_PORT, std::time::Duration::from_millis(10))?;
    let vrid = before.spec.vrid;
    let address = "192.0.2.190".parse()?;
    lab.start_keepalived(PEER, Keepalived { vrid, priority: 255, interval_ms: 100, address })?;
    await_that("the stranger is Active", LIMIT, async || {
        let counts = lab.keepalived_counts(PEER).await?;
        ensure!(counts.became_master == 1 && counts.sent > 0, "{counts:?}");
        Ok(Some(()))
    })
    .await?;
    let stranger = IpAddr::from(lab.host(PEER)?.address);
    let networks: Api<NodeNetwork> = Api::all(lab.client());
    let hearing = if before.spec.transport == Transport::Multicast { &AGENTS[..] } else { &[] };
    for node in hearing {
        await_that(&format!("{node} reports the stranger on VRID {vrid}"), LIMIT, async || {
            let heard = networks.get(node).await?.spec.foreign_routers;
            let known = heard.iter().any(|one| one.source == stranger && one.vrid == vrid);
            ensure!(known, "it reports {heard:?}");
            Ok(Some(()))
        })
        .await?;
    }
    let after = await_router(lab, vip, |router| as_wanted(router, &before)).await?;
    let active = after.status.as_ref().and_then(|status| status.active_node.clone());
    ensure!(active.as_ref() == Some(&owner), "{active:?} is Active in {}, {owner} was", after.name_any());
    let outcome = probe.stop()?;
    // (A few may be under way when it stops.)
    ensure!(outcome.sent - outcome.answered < 10, "the stranger cost answers: {outcome:?}");
    lab.stop_keepalived(PEER).await
}
