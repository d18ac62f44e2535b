//! Addresses that Services name in `spec.externalIPs`.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use windlass_api::VirtualIPPool;
use windlass_e2e::{await_that, scenario};

use crate::setup::{LIMIT, await_answer, await_event, lab};

// shows: ccm-contract S-39
#[test]
fn external_addresses_are_announced_only_of_pools_that_allow_them() -> anyhow::Result<()> {
    scenario("external-ips", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.backend("web", &["n3"]).await?;
        lab.same_backend("outward", "web")?;
        lab.same_backend("refused", "web")?;
        let make = async |name: &str, address: &str| {
            let external = |service: &mut Service| {
                let spec = service.spec.get_or_insert_default();
                spec.type_ = Some("ClusterIP".into());
                spec.external_ips = Some(vec![address.into()]);
            };
            lab.load_balancer(name, external).await
        };
        // Made before the pool: later the API server refuses it.
        make("refused", "192.0.2.205").await?;
        lab.pool("default", &["192.0.2.200-192.0.2.209"]).await?;
        lab.pool_with("open", &["192.0.2.220-192.0.2.229"], json!({"allowExternalIPs": true})).await?;
        make("outward", "192.0.2.221").await?;
        let external = "192.0.2.221".parse()?;
        lab.await_owner("c1", external).await?;
        await_answer(lab, external).await?;
        await_event(lab, "refused", "ExternalIPRefused", &["192.0.2.205", "default"]).await?;
        ensure!(lab.virtual_ip("192.0.2.205".parse()?).await?.is_none(), "what was refused is announced");
        let nobody = lab.neighbours("c1", "192.0.2.205".parse()?).await?;
        ensure!(nobody.is_empty(), "{nobody:?} answer for what was refused");
        let forbid = json!({"spec": {"allowExternalIPs": false}});
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        pools.patch("open", &PatchParams::default(), &Patch::Merge(forbid)).await?;
        await_that(&format!("{external} is withdrawn"), LIMIT, async || {
            let nobody = lab.neighbours("c1", external).await?;
            ensure!(nobody.is_empty(), "{nobody:?} answer for it");
            Ok(Some(()))
        })
        .await
    })
}
