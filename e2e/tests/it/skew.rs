//! Parts of Windlass that are of different versions.

use anyhow::ensure;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::PostParams};
use windlass_e2e::{Lab, await_that, scenario};

use crate::setup::{LIMIT, await_event, definitions, ingresses, lab, served};

#[test]
fn with_older_definitions_a_service_whose_clients_are_restricted_is_not_announced_and_says_what_helps()
-> anyhow::Result<()> {
    scenario("older-definitions", lab(), async |lab| {
        served(lab).await?;
        forget_sources(lab).await?;

        lab.same_backend("restricted", "web")?;
        lab.load_balancer("restricted", |service| {
            service.spec.get_or_insert_default().load_balancer_source_ranges =
                Some(vec!["192.0.2.0/24".into()]);
        })
        .await?;
        let words = ["unknown field \"spec.sources", "older version", "kubectl apply -f manifests/crds"];
        await_event(lab, "restricted", "SyncLoadBalancerFailed", &words).await?;
        // Whom nobody restricts is served meanwhile.
        lab.same_backend("open", "web")?;
        lab.load_balancer("open", |_| ()).await?;
        let open = lab.ingress("open", LIMIT).await?;
        lab.await_owner("c1", open).await?;
        let restricted = ingresses(lab, "restricted").await?;
        ensure!(restricted.is_empty(), "it shows {restricted:?}");

        lab.apply(definitions()).await?;
        let address = lab.ingress("restricted", LIMIT).await?;
        let sources = lab.virtual_ip(address).await?.map(|vip| vip.spec.sources).unwrap_or_default();
        ensure!(sources.iter().any(|of_port| of_port.allowed == ["192.0.2.0/24"]), "{sources:?}");
        lab.await_owner("c1", address).await.map(drop)
    })
}

/// Has the API server serve definitions that do not know who may use an address.
async fn forget_sources(lab: &Lab) -> anyhow::Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(lab.client());
    let mut crd = crds.get("virtualips.windlass.dev").await?;
    for version in &mut crd.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        let spec = schema.and_then(|schema| schema.properties.as_mut()?.get_mut("spec"));
        spec.and_then(|spec| spec.properties.as_mut()?.remove("sources"));
    }
    crds.replace("virtualips.windlass.dev", &PostParams::default(), &crd).await?;
    await_that("the older definition is served", LIMIT, async || {
        let explained = lab.kubectl(&["explain", "virtualips.spec.sources"]).await;
        Ok(explained.is_err().then_some(()))
    })
    .await
}
