//! What an admin's pools do to Services: which may use them, what becomes of those whose address is taken out, and what a
//! Service may take by itself.

use std::net::IpAddr;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_api::{
    ANNOTATION_ADDRESSES, ANNOTATION_ALLOW_MOVE, ANNOTATION_POOL, LOAD_BALANCER_CLASS, QuarantineReason,
    VirtualIP, VirtualIPPool,
};
use windlass_e2e::{Lab, await_that, scenario};

use crate::setup::{
    LIMIT, annotate, await_answer, await_event, await_ingresses, await_verdict, dual_stack, ingresses, lab,
    served, services,
};

#[test]
fn address_taken_out_of_its_pool_is_kept_until_the_admin_allows_the_move() -> anyhow::Result<()> {
    scenario("removal", lab(), async |lab| {
        let vip = served(lab).await?;
        lab.same_backend("two", "web")?;
        lab.load_balancer("two", |_| ()).await?;
        let two = lab.ingress("two", LIMIT).await?;
        let claim = lab.virtual_ip(vip).await?.and_then(|vip| vip.uid());
        let pools: Api<VirtualIPPool> = Api::all(lab.client());
        let vips: Api<VirtualIP> = Api::all(lab.client());

        let shrink = json!({"spec": {"addresses": ["192.0.2.220-192.0.2.230"]}});
        pools.patch("default", &PatchParams::default(), &Patch::Merge(shrink)).await?;
        for (name, address) in [("web", vip), ("two", two)] {
            await_verdict(lab, "default", name, "True AddressOutsidePools", &[&*address.to_string()]).await?;
            let kept = ingresses(lab, name).await?;
            ensure!(kept == [address], "{name} had {address} and has {kept:?}");
            await_answer(lab, address).await?;
        }
        await_pool_condition(lab, "default", "AddressesKept", "True", &[&*vip.to_string()]).await?;
        let same = lab.virtual_ip(vip).await?.and_then(|vip| vip.uid());
        ensure!(same == claim, "the claim to {vip} was made anew");

        // One of them, then all.
        let allow = json!({"metadata": {"annotations": {ANNOTATION_ALLOW_MOVE: "true"}}});
        vips.patch(&two.to_string(), &PatchParams::default(), &Patch::Merge(allow)).await?;
        moved(lab, "two", two).await?;
        let kept = ingresses(lab, "web").await?;
        ensure!(kept == [vip], "web had {vip} and has {kept:?}");
        let all = json!({"spec": {"onRemoval": "Move"}});
        pools.patch("default", &PatchParams::default(), &Patch::Merge(all)).await?;
        moved(lab, "web", vip).await
    })
}

/// Waits until the Service has moved off `old`, with an event before and one after.
async fn moved(lab: &Lab, name: &str, old: IpAddr) -> anyhow::Result<()> {
    let new = await_that(&format!("{name} has another address than {old}"), LIMIT, async || {
        let shown = ingresses(lab, name).await?;
        let &[address] = &shown[..] else { anyhow::bail!("it shows {shown:?}") };
        Ok((address != old).then_some(address))
    })
    .await?;
    ensure!(new.to_string().starts_with("192.0.2.22"), "{name} moved to {new}");
    for reason in ["AddressMoving", "AddressMoved"] {
        await_event(lab, name, reason, &[&*old.to_string(), &*new.to_string()]).await?;
    }
    await_verdict(lab, "default", name, "True Allocated", &[]).await?;
    await_answer(lab, new).await?;
    await_that(&format!("{old} is withdrawn"), LIMIT, async || {
        ensure!(lab.neighbours("c1", old).await?.is_empty(), "somebody answers for it");
        let spec = lab.virtual_ip(old).await?.map(|vip| vip.spec);
        ensure!(spec.as_ref().is_none_or(|spec| spec.quarantine.is_some()), "its claim is {spec:?}");
        Ok(Some(()))
    })
    .await
}

#[test]
fn pools_serve_those_they_are_for() -> anyhow::Result<()> {
    scenario("selection", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.backend("web", &["n3"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.209"]).await?;
        let team = json!({"namespaceSelectors": [{"matchLabels": {"team": "blue"}}]});
        lab.pool_with("blue", &["192.0.2.210-192.0.2.219"], team).await?;

        // A namespace that is not the pool's becomes it.
        let namespaces: Api<Namespace> = Api::all(lab.client());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("apps".into());
        namespaces.create(&PostParams::default(), &namespace).await?;
        let mut service = lab.load_balancer("model", |_| ()).await?;
        let first = lab.ingress("model", LIMIT).await?;
        ensure!(first.to_string() == "192.0.2.200", "model got {first}");
        service.metadata = serde_json::from_value(json!({"name": "app", "namespace": "apps"}))?;
        annotate(&mut service, ANNOTATION_POOL, "blue");
        clear_allocated(&mut service);
        let apps = services(lab, "apps");
        apps.create(&PostParams::default(), &service).await?;
        await_verdict(lab, "apps", "app", "False PoolNotAllowed", &["blue", "namespace"]).await?;
        let label = json!({"metadata": {"labels": {"team": "blue"}}});
        namespaces.patch("apps", &PatchParams::default(), &Patch::Merge(label)).await?;
        await_verdict(lab, "apps", "app", "True Allocated", &["192.0.2.210"]).await?;

        // Of our class, with a finalizer of its own.
        lab.same_backend("classed", "web")?;
        let service = lab
            .load_balancer("classed", |service| {
                service.spec.get_or_insert_default().load_balancer_class = Some(LOAD_BALANCER_CLASS.into());
            })
            .await?;
        let classed = lab.ingress("classed", LIMIT).await?;
        await_answer(lab, classed).await?;
        let finalizers = services(lab, "default").get(&service.name_any()).await?.finalizers().to_vec();
        ensure!(!finalizers.is_empty(), "it has no finalizer");
        services(lab, "default").delete("classed", &DeleteParams::default()).await?;
        Ok(())
    })
}

// shows: allocation 121
#[test]
fn address_that_a_stranger_has_is_left_to_him_and_the_next_one_given() -> anyhow::Result<()> {
    scenario("taken", lab(), async |lab| {
        lab.exec("c1", &["ip", "addr", "add", "192.0.2.200/32", "dev", "eth0"]).await?;
        lab.exec("c1", &["ip", "addr", "add", "2001:db8::200/128", "dev", "eth0", "nodad"]).await?;
        // All start at once, so that they take over from one another while they ask.
        lab.deploy_windlass(&["n1", "n2", "n3"]).await?;
        lab.pool("default", &["192.0.2.200-192.0.2.210", "2001:db8::200-2001:db8::210"]).await?;
        lab.backend("web", &["n3"]).await?;
        lab.load_balancer("web", dual_stack).await?;
        let shown = await_ingresses(lab, "web", 2).await?;
        let expected: [IpAddr; 2] = ["192.0.2.201".parse()?, "2001:db8::201".parse()?];
        ensure!(shown == expected, "it got {shown:?}");
        for address in shown {
            await_answer(lab, address).await?;
        }
        for taken in ["192.0.2.200", "2001:db8::200"] {
            let spec = lab.virtual_ip(taken.parse()?).await?.context("its VirtualIP is gone")?.spec;
            let quarantine = spec.quarantine.with_context(|| format!("{taken} is not in quarantine"))?;
            ensure!(quarantine.reason == QuarantineReason::AddressTaken, "{quarantine:?}");
            await_pool_condition(lab, "default", "AddressConflict", "True", &[taken]).await?;
        }
        let mac = lab.host("c1")?.mac();
        let his = lab.neighbours("n3", "192.0.2.200".parse()?).await?;
        ensure!(his == [mac], "{his:?} answer for the stranger's address");
        Ok(())
    })
}

#[test]
fn pool_that_is_the_nodes_subnet_itself_gives_no_address_that_the_kernels_answer_for() -> anyhow::Result<()> {
    scenario("anycast", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("default", &["2001:db8::/64"]).await?;
        lab.backend("web", &["n3"]).await?;
        lab.load_balancer("web", |service| {
            let spec = service.spec.get_or_insert_default();
            spec.ip_family_policy = Some("SingleStack".into());
            spec.ip_families = Some(vec!["IPv6".into()]);
        })
        .await?;
        let anycast =
            "2001:db8::, 2001:db8::fdff:ffff:ffff:ff80-2001:db8::fdff:ffff:ffff:ffff of 2001:db8::/64";
        await_pool_condition(lab, "default", "Ready", "False", &[anycast]).await?;
        await_pool_condition(lab, "default", "Announceable", "True", &["by nodes n1, n2"]).await?;
        let given = lab.ingress("web", LIMIT).await?;
        ensure!(given == "2001:db8::1".parse::<IpAddr>()?, "web got {given}");
        await_answer(lab, given).await?;
        lab.await_owner("c1", given).await?;

        // Named, it is refused with the reason.
        let name =
            |address: &'static str| json!({"metadata": {"annotations": {ANNOTATION_ADDRESSES: address}}});
        let params = PatchParams::default();
        services(lab, "default").patch("web", &params, &Patch::Merge(name("2001:db8::"))).await?;
        await_verdict(lab, "default", "web", "False PoolNotAllowed", &["2001:db8:: of pool", "reserved"])
            .await?;
        let n2: IpAddr = "2001:db8::12".parse()?;
        services(lab, "default").patch("web", &params, &Patch::Merge(name("2001:db8::12"))).await?;
        await_verdict(lab, "default", "web", "False InvalidRequest", &["an address of node n2"]).await?;
        let (kept, theirs) = (ingresses(lab, "web").await?, lab.neighbours("c1", n2).await?);
        ensure!(kept == [given] && theirs == [lab.node("n2")?.mac()], "{kept:?}, {theirs:?}");
        Ok(())
    })
}

#[test]
fn pool_says_which_of_its_addresses_the_nodes_can_announce() -> anyhow::Result<()> {
    scenario("announceable", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.pool("lan", &["192.0.2.200-192.0.2.209"]).await?;
        lab.pool("far", &["10.0.0.0/8"]).await?;
        lab.pool("link", &["fe80::/64"]).await?;
        await_pool_condition(lab, "lan", "Announceable", "True", &["10 of 10", "nodes n1, n2"]).await?;
        for (pool, share) in [("far", "0 of 16777216 IPv4"), ("link", "0 of 18446744073709551616 IPv6")] {
            await_pool_condition(lab, pool, "Announceable", "False", &[share, "/"]).await?;
            await_pool_condition(lab, pool, "Ready", "True", &[]).await?;
        }
        // An interface that an Announcement names announces what is in no subnet, of the pools that it is for.
        lab.announcement("far", json!({"pools": ["far"], "interfaces": ["eth0"]})).await?;
        await_pool_condition(lab, "far", "Announceable", "True", &["nodes n1, n2"]).await?;
        await_pool_condition(lab, "link", "Announceable", "False", &["/"]).await?;
        lab.change_announcement("far", json!({"interfaces": ["nope0"]})).await?;
        await_pool_condition(lab, "far", "Announceable", "False", &["0 of 16777216 IPv4", "nope0"]).await
    })
}

/// Waits until the pool has this condition, with a message that says all of `words`.
async fn await_pool_condition(
    lab: &Lab,
    pool: &str,
    condition: &str,
    status: &str,
    words: &[&str],
) -> anyhow::Result<()> {
    let pools: Api<VirtualIPPool> = Api::all(lab.client());
    await_that(&format!("pool {pool} has {condition} {status}, {words:?}"), LIMIT, async || {
        let conditions = pools.get(pool).await?.status.unwrap_or_default().conditions;
        let found = conditions.iter().find(|one| one.type_ == condition && one.status == status);
        let told = found.is_some_and(|one| words.iter().all(|word| one.message.contains(word)));
        ensure!(told, "its conditions are {conditions:?}");
        Ok(Some(()))
    })
    .await
}

/// Lets the API server choose again what it chose for the Service that this one was made from.
fn clear_allocated(service: &mut Service) {
    service.status = None;
    let Some(spec) = &mut service.spec else { return };
    (spec.cluster_ip, spec.cluster_ips, spec.health_check_node_port) = (None, None, None);
    for port in spec.ports.iter_mut().flatten() {
        port.node_port = None;
    }
}
