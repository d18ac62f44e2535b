//! Real kubelets that know the API servers by their VIP alone, on nodes that have VIPs.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use windlass_e2e::{ApiVipHolder, Lab, Signal, await_that, scenario};

use super::address;
use crate::setup::LIMIT;

/// The kubelet's own health, which its node's VIP is of here.
const CHECK: &str = "http://127.0.0.1:10248/healthz";
/// Comes before the node's own address in every order by number.
const VIP: &str = "192.0.2.3";

#[test]
fn a_kubelet_follows_the_vip_of_the_api_servers_and_never_takes_a_vip_for_its_nodes_address()
-> anyhow::Result<()> {
    let holder = ApiVipHolder::Windlass(Vec::new());
    let builder = Lab::builder().control_plane_nodes(3).nodes(1).client("c1").api_vip(holder);
    let builder = builder.late(&["n1"]).without_node_ip(&["n1"]);
    scenario("vip-kubelet", builder, async |lab| {
        let vip = address(VIP)?;
        // Without a cloud provider a kubelet chooses the address itself.
        let flags = ["--cloud-provider="];
        lab.start_vip("n1", &["--address", VIP, "--check", CHECK])?;
        lab.await_owner("c1", vip).await?;
        lab.join("n1", &flags).await?;
        own_address(lab).await.context("nothing is bound")?;

        lab.stop_vip("n1", Signal::SIGTERM).await?;
        lab.start_vip("n1", &["--address", VIP, "--check", CHECK, "--bind"])?;
        await_that("n1 has the VIP bound", LIMIT, async || {
            let shown = lab.exec("n1", &["ip", "-4", "-o", "address", "show", "dev", "eth0"]).await?;
            ensure!(shown.contains(&format!(" {VIP}/32 ")), "it has {shown}");
            Ok(Some(()))
        })
        .await?;
        lab.restart_kubelet("n1", &flags).await?;
        own_address(lab).await.context("the VIP is bound")?;

        // The API servers' VIP moves, and the kubelet goes on telling its node's state.
        let owner = lab.await_owner("c1", lab.api_vip()).await?;
        let before = heartbeat(lab).await?;
        lab.node(&owner)?.power_off().await?;
        lab.await_owner_other_than("c1", lab.api_vip(), &owner).await?;
        await_that("the kubelet renews its lease", LIMIT, async || {
            Ok((heartbeat(lab).await? != before).then_some(()))
        })
        .await
    })
}

/// The Node has one InternalIP of IPv4: its own.
async fn own_address(lab: &Lab) -> anyhow::Result<()> {
    let own = lab.node("n1")?.address().to_string();
    let node = Api::<Node>::all(lab.client()).get("n1").await?;
    let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
    let internal: Vec<&str> = addresses
        .iter()
        .filter(|address| address.type_ == "InternalIP" && !address.address.contains(':'))
        .map(|address| address.address.as_str())
        .collect();
    println!("{}: InternalIP {internal:?}", lab.name());
    ensure!(internal == [own.as_str()], "the kubelet says {addresses:?}, not {own}");
    Ok(())
}

/// When the kubelet renewed its Node's lease last.
async fn heartbeat(lab: &Lab) -> anyhow::Result<String> {
    let words = ["get", "lease", "n1", "--namespace=kube-node-lease", "--output=jsonpath={.spec.renewTime}"];
    lab.kubectl(&words).await
}
