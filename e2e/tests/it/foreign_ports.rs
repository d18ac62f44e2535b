//! What a tenant gets of another one's virtual IP where no admission policy keeps it out of `spec.externalIPs`. The attacker here has
//! rights to the Services of one namespace, and nothing else.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::json;
use windlass_e2e::{Lab, SERVICE_PORT, await_that, scenario};

use crate::external_ip_rules::tenant;
use crate::setup::{LIMIT, await_answer, await_event, lab, served};

const FOREIGN_PORT: u16 = 8443;

/// The attacker's Service, which lists this address for these ports, with a pod of its own behind it.
async fn evil(lab: &Lab, api: &Api<Service>, name: &str, address: &str, ports: &[u16]) -> anyhow::Result<()> {
    let ports: Vec<_> = ports
        .iter()
        .map(|port| json!({"name": format!("p{port}"), "port": port, "targetPort": 8080}))
        .collect();
    let spec = json!({"ports": ports, "externalIPs": [address]});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    let service: Service = serde_json::from_value(service)?;
    // The API server goes by a policy for a moment after it was deleted.
    await_that("the Service is accepted", LIMIT, async || {
        api.create(&PostParams::default(), &service).await.map(Some).context("create it")
    })
    .await?;
    let of_default: Api<EndpointSlice> = Api::default_namespaced(lab.client());
    let slices = of_default.list(&ListParams::default().labels("kubernetes.io/service-name=evil")).await?;
    let own: Api<EndpointSlice> = Api::namespaced(lab.client(), "evil");
    for (n, mut slice) in slices.into_iter().enumerate() {
        let of_port =
            slice.ports.clone().into_iter().flatten().find(|port| port.name.as_deref() == Some("http"));
        let of_port = of_port.context("the backend has no port http")?;
        let named = |port: &serde_json::Value| {
            let name = port["name"].as_str().map(str::to_owned);
            k8s_openapi::api::discovery::v1::EndpointPort { name, ..of_port.clone() }
        };
        slice.ports = Some(ports.iter().map(named).collect());
        let metadata = json!({"name": format!("{name}-{n}"), "labels": {"kubernetes.io/service-name": name}});
        slice.metadata = serde_json::from_value(metadata)?;
        own.create(&PostParams::default(), &slice).await?;
    }
    Ok(())
}

// shows: threats T-02
#[test]
fn a_foreign_service_gets_nothing_of_a_virtual_ip_on_a_port_of_its_own_and_its_owner_is_told()
-> anyhow::Result<()> {
    scenario("foreign-ports", lab(), async |lab| {
        let vip = served(lab).await?;
        lab.backend("evil", &["n3"]).await?;
        let inner = |service: &mut Service| {
            service.spec.get_or_insert_default().type_ = Some("ClusterIP".into());
        };
        lab.load_balancer("evil", inner).await?;
        let binding = ["delete", "validatingadmissionpolicybinding", "windlass-external-ips"];
        lab.kubectl(&binding).await?;
        let api: Api<Service> = Api::namespaced(tenant(lab, "evil").await?, "evil");
        evil(lab, &api, "evil", &vip.to_string(), &[FOREIGN_PORT]).await?;
        // No agent guards n3: what kube-proxy does by itself.
        await_that("kube-proxy gives the port away", LIMIT, async || {
            Ok((lab.curl("n3", vip, FOREIGN_PORT).await? == "evil-n3").then_some(()))
        })
        .await?;
        for host in ["c1", "n1", "n2"] {
            for _ in 0..6 {
                let answer = lab.curl(host, vip, FOREIGN_PORT).await;
                ensure!(answer.is_err(), "{host} got {answer:?} on a port that the owner has not");
                let answer = lab.curl(host, vip, SERVICE_PORT).await.context(host)?;
                ensure!(answer == "web-n3", "{host} got {answer:?} from the owner's port");
            }
        }
        let words =
            ["Service evil/evil lists", &vip.to_string(), "on nodes whose agent runs without its guard"];
        await_event(lab, "web", "ForeignExternalIP", &words).await?;
        // A port that the owner gets is served.
        let change = json!({"spec": {"ports": [
            {"name": "http", "port": SERVICE_PORT, "targetPort": 8080}, {"name": "more", "port": 81, "targetPort": 8080},
        ]}});
        let own: Api<Service> = Api::default_namespaced(lab.client());
        own.patch("web", &kube::api::PatchParams::default(), &kube::api::Patch::Strategic(change)).await?;
        await_that("the owner's VirtualIP names its new port", LIMIT, async || {
            let ports = lab.virtual_ip(vip).await?.map(|object| object.spec.ports).unwrap_or_default();
            Ok(ports.iter().any(|port| port.port == 81).then_some(()))
        })
        .await?;
        // On the owner's own port kube-proxy decides: that is told as such.
        evil(lab, &api, "same", &vip.to_string(), &[SERVICE_PORT]).await?;
        let words = ["Service evil/same lists", "listens on port TCP 80 too: kube-proxy decides"];
        await_event(lab, "web", "ForeignExternalIP", &words).await?;
        api.delete("same", &kube::api::DeleteParams::default()).await?;
        await_answer(lab, vip).await
    })
}
