//! Addresses at the virtual router MAC address, as an Announcement says.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use kube::{Api, api::ListParams};
use nix::sys::signal::Signal;
use serde_json::json;
use windlass_api::NodeNetwork;
use windlass_e2e::{Lab, LoadOptions, SERVICE_PORT, await_that, scenario};

use crate::setup::{LIMIT, await_ingresses, dual_stack, lab, other, router_of};

const CLIENT: LoadOptions = LoadOptions { connections: 0, requests_per_second: 100 };

// shows: field-reports F-43
#[test]
fn clients_keep_their_neighbour_entries_where_an_announcement_wants_the_virtual_mac_address()
-> anyhow::Result<()> {
    scenario("virtual-mac", lab(), async |lab| {
        let lab = &*lab;
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.250", "2001:db8::200-2001:db8::250"]).await?;
        lab.backend("web", &["n3"]).await?;
        lab.load_balancer("web", dual_stack).await?;
        let vips = await_ingresses(lab, "web", 2).await?;
        let mut owners = Vec::new();
        for vip in &vips {
            owners.push(lab.await_owner("c1", *vip).await?);
        }

        let mut clients = Vec::new();
        for vip in &vips {
            clients.push(lab.load("c1", *vip, SERVICE_PORT, CLIENT).await?);
        }
        lab.announcement("default", json!({"vrrp": {"virtualMAC": true}})).await?;
        for vip in &vips {
            await_virtual_mac(lab, *vip).await?;
        }
        for client in clients {
            let seen = client.stop()?;
            println!("to the virtual MAC address: {seen:?}");
            ensure!(seen.requests > 0 && seen.failed <= 1, "{seen:?}");
        }
        let networks: Api<NodeNetwork> = Api::all(lab.client());
        for network in networks.list(&ListParams::default()).await? {
            let told = serde_json::to_string(&network.spec)?;
            ensure!(
                vips.iter().all(|vip| !told.contains(&format!("{vip}/"))),
                "told of a virtual IP: {told}"
            );
        }

        let owner = &owners[0];
        lab.stop_agent(owner, Signal::SIGKILL).await?;
        for vip in &vips {
            await_that(&format!("the other node serves {vip}"), LIMIT, async || {
                let routers = router_of(lab, *vip).await?;
                let active = routers.status.and_then(|status| status.active_node);
                ensure!(active.as_deref() == Some(other(owner)), "{active:?} is Active");
                Ok(Some(()))
            })
            .await?;
            ensure!(lab.curl("c1", *vip, SERVICE_PORT).await? == "web-n3");
            await_virtual_mac(lab, *vip).await?;
        }
        Ok(())
    })
}

/// Waits until the client knows the address at the virtual MAC address of its router.
async fn await_virtual_mac(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("the client knows {vip} at the virtual MAC address"), LIMIT, async || {
        let vrid = router_of(lab, vip).await?.spec.vrid;
        let family = if vip.is_ipv4() { 1 } else { 2 };
        let wanted = format!("00:00:5e:00:{family:02x}:{vrid:02x}");
        let entry = lab.exec("c1", &["ip", "neigh", "show", &vip.to_string()]).await?;
        ensure!(entry.contains(&wanted), "it knows {entry:?}, not {wanted}");
        Ok(Some(()))
    })
    .await
    .context("the virtual MAC address")
}
