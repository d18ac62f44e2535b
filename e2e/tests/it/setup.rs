//! What most scenarios begin with.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::api::core::v1::Service;
use windlass_e2e::{Lab, LabBuilder, SERVICE_PORT, await_that};

/// How long something may take that takes a fraction of a second when all is well.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// Two nodes with agents, `n1` and `n2`; a third, `n3`, whose backends outlive the faults of the other two; a client.
pub(crate) fn lab() -> LabBuilder {
    Lab::builder().nodes(3).client("c1").light()
}

/// Windlass with a pool, and the Service `web` behind one of its addresses, answered by `n3`'s backend.
pub(crate) async fn served(lab: &Lab) -> anyhow::Result<IpAddr> {
    lab.deploy_windlass(&["n1", "n2"]).await?;
    lab.pool("default", &["192.0.2.200-192.0.2.250"]).await?;
    lab.backend("web", &["n3"]).await?;
    lab.load_balancer("web", |_| ()).await?;
    let vip = lab.ingress("web", LIMIT).await?;
    await_answer(lab, vip).await?;
    Ok(vip)
}

/// Lets a Service have addresses of both families, IPv4 first.
pub(crate) fn dual_stack(service: &mut Service) {
    let spec = service.spec.get_or_insert_default();
    spec.ip_family_policy = Some("RequireDualStack".into());
    spec.ip_families = Some(vec!["IPv4".into(), "IPv6".into()]);
}

/// Waits until the backend answers the client over `vip`.
pub(crate) async fn await_answer(lab: &Lab, vip: IpAddr) -> anyhow::Result<()> {
    await_that(&format!("web-n3 answers the client over {vip}"), LIMIT, async || {
        let answer = lab.curl("c1", vip, SERVICE_PORT).await?;
        anyhow::ensure!(answer == "web-n3", "{answer:?} answered");
        Ok(Some(()))
    })
    .await
}

/// The other of the two nodes that have an agent.
pub(crate) fn other(node: &str) -> &'static str {
    if node == "n1" { "n2" } else { "n1" }
}
