//! The variant with real kubelets.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::ListParams};
use windlass_e2e::{Lab, await_that, scenario};

use crate::setup::dual_stack;

const LIMIT: Duration = Duration::from_mins(1);

#[test]
fn full_lab_runs_pods_behind_a_service_on_uninitialized_nodes() -> anyhow::Result<()> {
    scenario("full-serves", Lab::builder().nodes(2).client("c1"), async |lab| {
        let nodes = Api::<Node>::all(lab.client()).list(&ListParams::default()).await?;
        assert_eq!(nodes.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["n1", "n2"]);
        for node in &nodes {
            let taints = node.spec.clone().and_then(|spec| spec.taints).unwrap_or_default();
            let uninitialized = "node.cloudprovider.kubernetes.io/uninitialized";
            ensure!(
                taints.iter().any(|taint| taint.key == uninitialized),
                "{} has {taints:?}",
                node.name_any()
            );
        }

        lab.backend("web", &["n1", "n2"]).await?;
        let service = lab.load_balancer("web", dual_stack).await?;
        let ports = service.spec.and_then(|spec| spec.ports).context("no ports")?;
        let node_port = u16::try_from(ports[0].node_port.context("no node port")?)?;
        let n1 = lab.host("n1")?;
        for address in [IpAddr::from(n1.address), n1.ipv6().into()] {
            let mut missing = vec!["web-n1", "web-n2"];
            let what = format!("the pods of both nodes answer on n1's node port at {address}");
            await_that(&what, LIMIT, async || {
                let answer = lab.curl("c1", address, node_port).await?;
                missing.retain(|server| *server != answer);
                ensure!(missing.is_empty(), "{answer} answered, not yet {missing:?}");
                Ok(Some(()))
            })
            .await?;
        }
        // The API server reaches kubelets by their addresses.
        let words = lab.kubectl(&["logs", "deployment/web-n2", "--tail=-1"]).await?;
        ensure!(words.contains("Started HTTP server"), "the pod's log: {words}");

        lab.node("n2")?.power_off().await?;
        let processes = lab.exec("cp", &["ps", "-e", "-o", "args"]).await?;
        assert_eq!(processes.matches("netexec").count(), 1, "only n1's pod is alive:\n{processes}");
        assert_eq!(processes.matches("/kubelet.json").count(), 1, "only n1's kubelet is alive:\n{processes}");
        Ok(())
    })
}
