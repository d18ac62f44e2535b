//! keepalived, Debian's, as another router of the LAN: to compare with, or as a stranger.

use std::{fs, net::IpAddr};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::lab::Lab;

/// Name of the process, and of its files.
const KEEPALIVED: &str = "keepalived";

/// A virtual router of keepalived's, of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalived {
    /// VRID.
    pub vrid: u8,
    /// Priority; 255 begins as Active, others as Backup.
    pub priority: u8,
    /// Time from one advert to the next.
    pub interval_ms: u32,
    /// The address, which it puts on `eth0`.
    pub address: IpAddr,
}

impl Lab {
    /// Starts keepalived on a host, one at a time there.
    pub fn start_keepalived(&self, host: &str, router: Keepalived) -> anyhow::Result<()> {
        let file = self.folder().join(format!("keepalived-{host}.conf"));
        fs::write(&file, router.configuration()).with_context(|| format!("writing {}", file.display()))?;
        let file = file.display().to_string();
        let pid = format!("/run/lab/keepalived-{host}");
        let command = [
            "keepalived",
            "--dont-fork",
            "--vrrp",
            "--log-console",
            "--use-file",
            &file,
            "--pid",
            &format!("{pid}.pid"),
            "--vrrp_pid",
            &format!("{pid}-vrrp.pid"),
        ];
        self.start_process(host, KEEPALIVED, &command)
    }

    /// Ends the keepalived of a host with SIGTERM: it resigns.
    pub async fn stop_keepalived(&self, host: &str) -> anyhow::Result<()> {
        self.end_process(host, KEEPALIVED, Signal::SIGTERM).await
    }

    /// A Service before the backend `of`, of a class that nobody serves, with `address` in its status: kube-proxy makes no
    /// difference between it and one of Windlass'.
    pub async fn foreign_service(&self, name: &str, of: &str, address: IpAddr) -> anyhow::Result<()> {
        self.same_backend(name, of)?;
        self.load_balancer(name, |service| {
            service.spec.get_or_insert_default().load_balancer_class =
                Some("bench.example/keepalived".into());
        })
        .await?;
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}]}}});
        let services: Api<Service> = Api::default_namespaced(self.client());
        services.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// Removes a Service of namespace `default`.
    pub async fn remove_service(&self, name: &str) -> anyhow::Result<()> {
        let services: Api<Service> = Api::default_namespaced(self.client());
        services.delete(name, &DeleteParams::default()).await.with_context(|| format!("removing {name}"))?;
        Ok(())
    }
}

impl Keepalived {
    fn configuration(self) -> String {
        let Self { vrid, priority, interval_ms, address } = self;
        let state = if priority == 255 { "MASTER" } else { "BACKUP" };
        format!(
            "global_defs {{
                 router_id lab
                 vrrp_version 3
             }}
             vrrp_instance lab {{
                 state {state}
                 interface eth0
                 virtual_router_id {vrid}
                 priority {priority}
                 advert_int {}.{:03}
                 virtual_ipaddress {{ {address}/32 dev eth0 }}
             }}\n",
            interval_ms / 1000,
            interval_ms % 1000
        )
    }
}
