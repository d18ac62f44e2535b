//! What a kubelet that runs with `--cloud-provider=external` waits for.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use windlass_e2e::{Lab, await_that, scenario};

use crate::setup::LIMIT;

#[test]
fn uninitialized_node_gets_addresses_and_provider_id_and_loses_its_taint() -> anyhow::Result<()> {
    scenario("uninitialized", Lab::builder().nodes(2).light().uninitialized(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        let nodes: Api<Node> = Api::all(lab.client());
        for name in ["n1", "n2"] {
            let address = lab.node(name)?.address().to_string();
            await_that(&format!("{name} is initialized"), LIMIT, async || {
                let node = nodes.get(name).await?;
                let spec = node.spec.unwrap_or_default();
                let taints = spec.taints.unwrap_or_default();
                let addresses = node.status.and_then(|status| status.addresses).unwrap_or_default();
                // Whoever sees the node without its taint sees its addresses and its provider ID too.
                let initialized =
                    !taints.iter().any(|t| t.key == "node.cloudprovider.kubernetes.io/uninitialized");
                ensure!(initialized, "taints {taints:?}");
                ensure!(spec.provider_id == Some(format!("windlass://{name}")), "{:?}", spec.provider_id);
                let internal = addresses.iter().find(|a| a.type_ == "InternalIP").map(|a| &a.address);
                ensure!(internal == Some(&address), "addresses {addresses:?}");
                ensure!(addresses.iter().any(|a| a.type_ == "Hostname"), "addresses {addresses:?}");
                Ok(Some(()))
            })
            .await?;
        }
        Ok(())
    })
}
