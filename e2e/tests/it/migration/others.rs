//! The ways from kube-vip and from keepalived. Of both the lab has what they leave in the cluster and on the LAN: the
//! annotations, status and finalizer of a Service, and an address on an interface.

use std::net::IpAddr;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use nix::sys::signal::Signal;
use serde_json::json;
use windlass_api::{ANNOTATION_ADDRESSES, VirtualIP};
use windlass_e2e::{ControllerOptions, Lab, await_that, scenario};

use super::{await_allocated, converted};
use crate::setup::{LIMIT, annotate, await_verdict, ingresses, lab};

const ADDRESS: &str = "192.0.2.231";

pub(super) const KUBE_VIP: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: kubevip, namespace: kube-system}
data:
  cidr-global: 192.0.2.200/29,192.0.2.228/30
  cidr-red: 198.51.100.64/29
  interface-red: eth1
  skip-end-ips-in-cidr: 'false'
";

/// What PureLB and Cilium have, with what the API server looks at most closely.
pub(super) const PURELB: &str = "
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: tenants, namespace: purelb}
spec:
  namespaces: [red, blue]
  enforceNamespaces: true
  local: {v6pools: [{subnet: '2001:db8:1::/64', pool: '2001:db8:1::/120'}], v4pool: {subnet: 10.201.0.0/24, pool: 10.201.0.7-10.201.0.9}}
---
apiVersion: purelb.io/v2
kind: LBNodeAgent
metadata: {name: tenants, namespace: purelb}
spec: {local: {localInterface: '^eth.*'}}
";
pub(super) const CILIUM: &str = "
apiVersion: cilium.io/v2
kind: CiliumLoadBalancerIPPool
metadata: {name: blue-pool}
spec:
  blocks: [{cidr: 10.202.0.0/28}, {start: 10.202.1.1, stop: 10.202.1.9}, {start: 10.202.2.1}]
  allowFirstLastIPs: 'No'
  serviceSelector:
    matchLabels: {color: blue}
    matchExpressions: [{key: io.kubernetes.service.namespace, operator: NotIn, values: [red]}]
---
apiVersion: cilium.io/v2alpha1
kind: CiliumL2AnnouncementPolicy
metadata: {name: blue}
spec:
  loadBalancerIPs: true
  interfaces: [^eth0$]
  nodeSelector: {matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}]}
";
pub(super) const KEEPALIVED: &str = "
vrrp_instance old {
    interface eth0
    virtual_router_id 51
    virtual_ipaddress {
        192.0.2.231/24 dev eth0
    }
}
";

fn options(flags: &[&str]) -> ControllerOptions {
    ControllerOptions { flags: flags.iter().map(|flag| (*flag).to_owned()).collect(), ..Default::default() }
}

/// Binds the address to the interface of a host, or takes it away.
async fn bind(lab: &Lab, host: &str, what: &str) -> anyhow::Result<()> {
    let address = format!("{ADDRESS}/32");
    lab.exec(host, &["ip", "address", what, &address, "dev", "eth0"]).await.map(drop)
}

// shows: field-reports F-57
#[test]
fn services_of_kube_vip_keep_their_addresses_also_one_that_it_left_on_an_interface() -> anyhow::Result<()> {
    scenario("migration-kube-vip", lab(), async |lab| {
        lab.install_manifests().await?;
        for (program, input) in [("kube-vip", KUBE_VIP), ("purelb", PURELB), ("cilium", CILIUM)] {
            lab.apply(converted(program, input)?).await?;
        }
        // As kube-vip and its cloud provider leave it.
        lab.backend("web", &["n3"]).await?;
        lab.load_balancer("web", |service| {
            annotate(service, "kube-vip.io/loadbalancerIPs", ADDRESS);
            annotate(service, "kube-vip.io/vipHost", "n1");
            service.spec.get_or_insert_default().load_balancer_ip = Some(ADDRESS.to_owned());
            service.finalizers_mut().push("service.kubernetes.io/load-balancer-cleanup".to_owned());
        })
        .await?;
        let services: Api<Service> = Api::default_namespaced(lab.client());
        let shown = json!({"status": {"loadBalancer": {"ingress": [{"ip": ADDRESS}]}}});
        services.patch_status("web", &PatchParams::default(), &Patch::Merge(shown)).await?;
        bind(lab, "n1", "add").await?;
        let before = services.get("web").await?;

        // Beside it: not a word to its Service.
        lab.start_controller(options(&["--classless-services=false", "--compat-annotations=true"]))?;
        for node in ["n1", "n2"] {
            lab.start_agent(node)?;
        }
        lab.load_balancer("new", |service| {
            service.spec.get_or_insert_default().load_balancer_class =
                Some(windlass_api::LOAD_BALANCER_CLASS.to_owned());
        })
        .await?;
        lab.ingress("new", LIMIT).await?;
        let beside = services.get("web").await?;
        ensure!(beside.resource_version() == before.resource_version(), "touched: {beside:?}");

        // kube-vip is gone, but its address is still on the node: it is the node's, and the Service is told so.
        lab.stop_controller("controller", Signal::SIGTERM).await?;
        lab.start_controller(options(&["--compat-annotations=true"]))?;
        await_verdict(lab, "default", "web", "False InvalidRequest", &[ADDRESS]).await?;
        let address: IpAddr = ADDRESS.parse()?;
        ensure!(ingresses(lab, "web").await? == [address], "the status was changed");
        bind(lab, "n1", "delete").await?;
        await_allocated(lab, "web").await?;
        ensure!(ingresses(lab, "web").await? == [address], "the address was changed");
        lab.await_owner("c1", address).await?;
        crate::setup::await_answer(lab, address).await
    })
}

#[test]
fn an_address_of_keepalived_is_a_services_once_keepalived_lets_go_of_it() -> anyhow::Result<()> {
    scenario("migration-keepalived", lab(), async |lab| {
        lab.deploy_windlass(&["n1", "n2"]).await?;
        lab.apply(converted("keepalived", KEEPALIVED)?).await?;
        lab.backend("web", &["n3"]).await?;
        // keepalived's router, another machine of the LAN.
        bind(lab, "n3", "add").await?;
        lab.load_balancer("web", |service| annotate(service, ANNOTATION_ADDRESSES, ADDRESS)).await?;
        await_verdict(lab, "default", "web", "False AddressInUse", &["another host"]).await?;
        ensure!(ingresses(lab, "web").await?.is_empty(), "it shows an address that another host has");

        bind(lab, "n3", "delete").await?;
        let claims: Api<VirtualIP> = Api::all(lab.client());
        claims.delete(ADDRESS, &DeleteParams::default()).await?;
        await_allocated(lab, "web").await?;
        let address: IpAddr = ADDRESS.parse()?;
        await_that("the address works", LIMIT, async || {
            ensure!(ingresses(lab, "web").await? == [address], "not shown");
            Ok(Some(()))
        })
        .await?;
        lab.await_owner("c1", address).await?;
        crate::setup::await_answer(lab, address).await
    })
}
