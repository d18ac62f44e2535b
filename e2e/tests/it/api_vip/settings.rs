//! The file of `windlass vip` is changed, spoilt and put right, and its keys are replaced, while clients ask.

use std::{fs, net::IpAddr, path::Path};

use anyhow::{Context as _, ensure};
use windlass_e2e::{Lab, Load, LoadOptions, await_that, scenario};

use super::{
    PORT, address, await_alone, await_fit, await_said, await_served,
    hosts::{config, start_with, write_config},
};
use crate::setup::LIMIT;

const NODES: [&str; 2] = ["n1", "n2"];
const CLIENT: LoadOptions = LoadOptions { connections: 10, requests_per_second: 100 };

#[test]
fn no_request_is_lost_while_settings_are_read_anew_wrong_ones_are_refused_and_keys_are_replaced()
-> anyhow::Result<()> {
    let builder = Lab::builder().nodes(2).client("c1").light().without_proxy();
    scenario("vip-settings", builder, async |lab| {
        let (first, second) = (address("192.0.2.201")?, address("192.0.2.202")?);
        lab.host_backend("api", &NODES).await?;
        for node in NODES {
            write_key(&keys(lab, node), 1)?;
            start_with(lab, node, &with_keys(lab, node, &[first]))?;
        }
        await_fit(lab, &NODES).await?;
        await_served(lab, first, &NODES).await?;
        let answering = lab.answering("c1", &[first])?;
        await_alone(&answering, first, |_| true).await?;
        let client = lab.load("c1", first, PORT, CLIENT).await?;

        // Another VIP.
        for node in NODES {
            write_config(lab, node, &with_keys(lab, node, &[first, second]))?;
        }
        await_served(lab, second, &NODES).await?;
        // A mistake: it is told, and nothing changes.
        for node in NODES {
            write_config(lab, node, &with_keys(lab, node, &[first]).replace("checks:", "cheques:"))?;
            await_said(lab, node, &["cheques", &format!("vip-{node}.yaml")]).await?;
        }
        let owner = await_served(lab, second, &NODES).await?;
        // The second one goes, from the node that has it first: the other one takes over, and its clients lose nothing.
        let others: Vec<&str> = NODES.into_iter().filter(|node| *node != owner).collect();
        let moved = lab.load("c1", second, PORT, CLIENT).await?;
        write_config(lab, &owner, &with_keys(lab, &owner, &[first]))?;
        await_served(lab, second, &others).await?;
        unharmed(lab, moved)?;
        for node in NODES {
            write_config(lab, node, &with_keys(lab, node, &[first]))?;
        }
        await_that("nobody has the second VIP", LIMIT, async || {
            let macs = lab.neighbours("c1", second).await?;
            ensure!(macs.is_empty(), "{macs:?} answer");
            Ok(Some(()))
        })
        .await?;
        // A new key: all have it before the old one goes.
        for node in NODES {
            write_key(&keys(lab, node), 2)?;
            await_said(lab, node, &["keys that sign adverts", "[1, 2]"]).await?;
        }
        for node in NODES {
            fs::remove_file(keys(lab, node).join("1"))?;
            await_said(lab, node, &["keys that sign adverts", "signs=2"]).await?;
        }
        await_alone(&answering, first, |_| true).await?;
        unharmed(lab, client)?;
        let seen = answering.stop()?;
        ensure!(seen.moves.values().sum::<u32>() == 0, "{first} has moved: {:?}", seen.moves);
        Ok(())
    })
}

fn unharmed(lab: &Lab, client: Load) -> anyhow::Result<()> {
    let seen = client.stop()?;
    println!("{}: {seen:?}", lab.name());
    ensure!(seen.failed == 0 && seen.broken == 0, "{seen:?}");
    Ok(())
}

fn with_keys(lab: &Lab, node: &str, vips: &[IpAddr]) -> String {
    format!("keysDir: {}\n{}", keys(lab, node).display(), config(vips.iter().copied()))
}

fn keys(lab: &Lab, node: &str) -> std::path::PathBuf {
    lab.folder().join(format!("vip-keys-{node}"))
}

fn write_key(folder: &Path, id: u8) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(id.to_string()), format!("hex:{id:064x}")).context("writing a key")
}
