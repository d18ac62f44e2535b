//! What a tenant, who may do all to the Services of one namespace, can write into `spec.externalIPs`: no address of a pool that
//! does not allow it to that namespace.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, Client, Config,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::VirtualIPPool;
use windlass_e2e::{ControllerOptions, Lab, await_that, scenario};

use crate::setup::{LIMIT, await_answer, served};

/// Who has rights in this namespace and nowhere else.
pub(crate) async fn tenant(lab: &Lab, namespace: &str) -> anyhow::Result<Client> {
    lab.kubectl(&["create", "namespace", namespace]).await?;
    lab.kubectl(&["label", "namespace", namespace, &format!("tenant={namespace}")]).await?;
    lab.kubectl(&["-n", namespace, "create", "serviceaccount", "tenant"]).await?;
    lab.kubectl(&["-n", namespace, "create", "role", "tenant", "--verb=*", "--resource=services"]).await?;
    let account = format!("--serviceaccount={namespace}:tenant");
    lab.kubectl(&["-n", namespace, "create", "rolebinding", "tenant", "--role=tenant", &account]).await?;
    let token = lab.kubectl(&["-n", namespace, "create", "token", "tenant"]).await?;
    let config = kube::config::Kubeconfig::read_from(lab.kubeconfig("admin"))?;
    let mut config =
        Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await?;
    config.auth_info.token = Some(token.trim().into());
    Ok(Client::try_from(config)?)
}

fn service(name: &str, external: &[&str]) -> anyhow::Result<Service> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"name": "http", "port": 80}], "externalIPs": external},
    }))?)
}

/// Whether a Service with these external IPs may be made; the refusal otherwise.
async fn try_create(api: &Api<Service>, external: &[&str]) -> anyhow::Result<Result<(), String>> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let made = api.create(&params, &service("probe", external)?).await;
    Ok(made.map(drop).map_err(|error| error.to_string()))
}

async fn await_refusal(api: &Api<Service>, address: &str) -> anyhow::Result<()> {
    await_that(&format!("{address} is refused"), LIMIT, async || {
        Ok(try_create(api, &[address]).await?.is_err().then_some(()))
    })
    .await
}

// shows: field-reports F-62; threats T-01
#[test]
fn external_ips_of_a_pool_are_refused_at_admission_to_whom_it_does_not_allow_them() -> anyhow::Result<()> {
    scenario("external-ip-rules", crate::setup::lab(), async |lab| {
        let vip = served(lab).await?;
        let evil: Api<Service> = Api::namespaced(tenant(lab, "evil").await?, "evil");
        let edge: Api<Service> = Api::namespaced(tenant(lab, "edge").await?, "edge");
        let selected: Api<Service> = Api::namespaced(tenant(lab, "selected").await?, "selected");
        let allow = |fields: Value| {
            let mut spec = json!({"allowExternalIPs": true, "autoAssign": false});
            spec.as_object_mut()
                .into_iter()
                .for_each(|spec| spec.extend(fields.as_object().cloned().unwrap_or_default()));
            spec
        };
        lab.pool_with("edge", &["203.0.113.16/28"], allow(json!({"namespaces": ["edge"]}))).await?;
        let selectors = json!({"namespaceSelectors": [
            {"matchLabels": {"tenant": "nobody"}},
            {"matchExpressions": [
                {"key": "tenant", "operator": "In", "values": ["selected"]},
                {"key": "tenant", "operator": "Exists"},
                {"key": "tenant", "operator": "NotIn", "values": ["evil"]},
                {"key": "other", "operator": "DoesNotExist"},
            ]},
        ]});
        lab.pool_with("selected", &["2001:db8:7::5-2001:db8:7::9"], allow(selectors)).await?;
        let disabled = allow(json!({"disabled": true}));
        lab.pool_with("disabled", &["203.0.113.129-203.0.113.134"], disabled).await?;
        await_refusal(&evil, &vip.to_string()).await?;
        for address in ["203.0.113.17", "2001:db8:7::8", "203.0.113.131"] {
            await_refusal(&evil, address).await?;
        }

        let vip = vip.to_string();
        let mapped = format!("::ffff:{vip}");
        let pool = |name: &str| format!("is an address of VirtualIPPool {name}, which does not allow");
        let many: Vec<String> = (1..=33).map(|n| format!("198.18.0.{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (who, api, external, said) in [
            ("evil", &evil, &[&*vip][..], pool("default")),
            ("evil", &evil, &["198.18.0.1", &vip], pool("default")),
            // What nobody has yet, the ends of the range, and what is only a part of the range.
            ("evil", &evil, &["192.0.2.200"], pool("default")),
            ("evil", &evil, &["192.0.2.250"], pool("default")),
            ("evil", &evil, &["203.0.113.20"], pool("edge")),
            ("evil", &evil, &["2001:db8:7::5"], pool("selected")),
            ("evil", &evil, &["2001:0db8:0007:0000::9"], pool("selected")),
            ("edge", &edge, &["2001:db8:7::5"], pool("selected")),
            ("selected", &selected, &["203.0.113.20"], pool("edge")),
            ("edge", &edge, &["203.0.113.129"], pool("disabled")),
            ("edge", &edge, &["203.0.113.20", &vip], pool("default")),
            ("evil", &evil, &many, "name 32 at most".to_owned()),
        ] {
            let refused =
                try_create(api, external).await?.err().with_context(|| format!("{who}: {external:?}"))?;
            ensure!(refused.contains(&said), "{who}, {external:?}: it does not say {said:?}: {refused}");
            ensure!(refused.contains("windlass-external-ips"), "it names no policy: {refused}");
        }
        // What kube-proxy reads as the IPv4 address in it. (Newer API servers refuse it by themselves.)
        ensure!(try_create(&evil, &[&mapped]).await?.is_err(), "{mapped} was accepted");
        for (who, api, external) in [
            ("evil", &evil, &["192.0.2.199", "192.0.2.251", "2001:db8:7::4", "2001:db8:7::a"][..]),
            ("evil", &evil, &["203.0.113.128", "203.0.113.135", "198.18.0.7"]),
            ("evil", &evil, &many[..32]),
            ("evil", &evil, &[]),
            ("edge", &edge, &["203.0.113.16", "203.0.113.31"]),
            ("selected", &selected, &["2001:db8:7::5", "2001:db8:7::9"]),
        ] {
            if let Err(refused) = try_create(api, external).await? {
                anyhow::bail!("{who}, {external:?}: {refused}");
            }
        }
        await_answer(lab, vip.parse()?).await
    })
}

// shows: threats T-01
#[test]
fn services_that_have_an_external_ip_already_may_be_changed_and_not_gain_another() -> anyhow::Result<()> {
    scenario("external-ip-updates", Lab::builder().light(), async |lab| {
        lab.install_manifests().await?;
        let evil: Api<Service> = Api::namespaced(tenant(lab, "evil").await?, "evil");
        // Before there is a pool.
        evil.create(&PostParams::default(), &service("old", &["192.0.2.205", "198.18.0.1"])?).await?;
        // No controller has seen this pool: CIDRs and single addresses count all the same.
        lab.pool("default", &["192.0.2.200-192.0.2.209", "192.0.2.64/26", "2001:db8:9::1"]).await?;
        await_refusal(&evil, "192.0.2.65").await?;
        await_refusal(&evil, "2001:db8:9::1").await?;
        lab.start_controller(ControllerOptions::default())?;
        await_refusal(&evil, "192.0.2.206").await?;

        let change = async |patch: Value| {
            let patched = evil.patch("old", &PatchParams::default(), &Patch::Merge(patch)).await;
            patched.map(drop).map_err(|error| error.to_string())
        };
        let external = |list: &[&str]| json!({"spec": {"externalIPs": list}});
        for allowed in [
            json!({"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/theirs"]}}),
            json!({"spec": {"ports": [{"name": "http", "port": 81}]}}),
            external(&["198.18.0.1", "192.0.2.205", "198.18.0.2"]),
            external(&["192.0.2.205"]),
        ] {
            if let Err(refused) = change(allowed.clone()).await {
                anyhow::bail!("{allowed}: {refused}");
            }
        }
        for refused in [external(&["192.0.2.205", "192.0.2.206"]), external(&["192.0.2.207"])] {
            let said =
                change(refused.clone()).await.err().with_context(|| format!("{refused} was accepted"))?;
            ensure!(said.contains("VirtualIPPool default"), "{said}");
        }
        // Given up, it is not had back.
        change(external(&["198.18.0.1"])).await.map_err(anyhow::Error::msg)?;
        ensure!(change(external(&["192.0.2.205"])).await.is_err(), "it took the address again");
        Ok(())
    })
}

#[test]
fn services_are_made_as_ever_without_pools_and_without_their_definition() -> anyhow::Result<()> {
    scenario("external-ips-without-pools", Lab::builder().light(), async |lab| {
        lab.install_manifests().await?;
        let evil: Api<Service> = Api::namespaced(tenant(lab, "evil").await?, "evil");
        lab.pool("default", &["192.0.2.64/26"]).await?;
        await_refusal(&evil, "192.0.2.65").await?;
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        pools.delete("default", &DeleteParams::default()).await?;
        let await_accepted = async |what: &str, external: &[&str]| {
            await_that(&format!("{external:?} is accepted without {what}"), LIMIT, async || {
                let refused = try_create(&evil, external).await?;
                ensure!(refused.is_ok(), "{refused:?}");
                Ok(Some(()))
            })
            .await
        };
        await_accepted("pools", &["192.0.2.65"]).await?;
        lab.kubectl(&["delete", "crd", "virtualippools.windlass.dev"]).await?;
        await_accepted("their definition", &["192.0.2.65"]).await?;
        await_accepted("their definition", &[]).await
    })
}

// shows: threats T-01
#[test]
fn the_largest_pool_and_list_are_within_what_a_policy_may_cost() -> anyhow::Result<()> {
    scenario("external-ip-cost", Lab::builder().light(), async |lab| {
        lab.install_manifests().await?;
        let evil: Api<Service> = Api::namespaced(tenant(lab, "evil").await?, "evil");
        lab.pool("default", &["192.0.2.65"]).await?;
        await_refusal(&evil, "192.0.2.65").await?;
        // 1024 CIDRs of the longest text; the last one has the address.
        let mut cidrs: Vec<String> =
            (0..1023).map(|n| format!("2001:db8:1111:2222:3333:4444:{n:x}:8888/128")).collect();
        cidrs.push("192.0.2.77/32".to_owned());
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        let status = Patch::Merge(json!({"status": {"cidrs": cidrs}}));
        pools.patch_status("default", &PatchParams::default(), &status).await?;
        await_refusal(&evil, "192.0.2.77").await?;
        let mut list: Vec<String> =
            (0..31).map(|n| format!("2001:0db8:9999:2222:3333:4444:{n:04x}:8888")).collect();
        let others: Vec<&str> = list.iter().map(String::as_str).collect();
        if let Err(refused) = try_create(&evil, &others).await? {
            anyhow::bail!("31 addresses of no pool: {refused}");
        }
        list.push("192.0.2.77".to_owned());
        let with_one: Vec<&str> = list.iter().map(String::as_str).collect();
        let refused =
            try_create(&evil, &with_one).await?.err().context("32 addresses, the last of the pool")?;
        ensure!(refused.contains("192.0.2.77 is an address of VirtualIPPool default"), "{refused}");
        // An update whose lists are as long as they may be.
        let old: Vec<String> = (0..225).map(|n| format!("198.18.0.{n}")).collect();
        let mut grown: Vec<&str> = Vec::new();
        let first = old.iter().take(32).map(String::as_str).collect::<Vec<_>>();
        evil.create(&PostParams::default(), &service("grown", &first)?).await?;
        for chunk in old.chunks(32) {
            grown.extend(chunk.iter().map(String::as_str));
            let patch = Patch::Merge(json!({"spec": {"externalIPs": grown}}));
            evil.patch("grown", &PatchParams::default(), &patch).await?;
        }
        let mut with_another = grown.clone();
        with_another.push("192.0.2.77");
        let patch = Patch::Merge(json!({"spec": {"externalIPs": with_another}}));
        let refused = evil.patch("grown", &PatchParams::default(), &patch).await;
        ensure!(refused.is_err(), "a list of 226 hid an address of the pool");
        Ok(())
    })
}
