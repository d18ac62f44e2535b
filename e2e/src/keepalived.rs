//! keepalived, Debian's, as another router of the LAN: to compare with, or as a stranger.

mod counts;

use std::{fs, net::IpAddr, path::PathBuf};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::{lab::Lab, topology::Role};

pub use counts::KeepalivedCounts;

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
        self.start_keepalived_of(host, &[router])
    }

    /// The same with several virtual routers. On a node it dies with the node.
    pub fn start_keepalived_of(&self, host: &str, routers: &[Keepalived]) -> anyhow::Result<()> {
        let folder = self.keepalived_folder(host);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let file = folder.join("keepalived.conf");
        fs::write(&file, configuration(routers)).with_context(|| format!("writing {}", file.display()))?;
        let statistics = format!("TMPDIR={}", folder.display());
        let file = file.display().to_string();
        let pid = format!("/run/lab/keepalived-{host}");
        // One that was killed leaves them, and their numbers may be another process' by now.
        self.sandbox.script(&format!("rm -f {pid}.pid {pid}-vrrp.pid"))?;
        let command = [
            "env",
            &statistics,
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
        let is_node = matches!(self.host(host)?.role, Role::Node(_));
        if is_node {
            return self.start_on_node(host, KEEPALIVED, command.map(str::to_owned).to_vec());
        }
        self.start_process(host, KEEPALIVED, &command)
    }

    /// Its files.
    fn keepalived_folder(&self, host: &str) -> PathBuf {
        self.folder().join(format!("keepalived-{host}"))
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

/// The file of these virtual routers.
fn configuration(routers: &[Keepalived]) -> String {
    let instances: String = routers.iter().map(|router| router.instance()).collect();
    format!("global_defs {{\n    router_id lab\n    vrrp_version 3\n}}\n{instances}")
}

impl Keepalived {
    fn instance(self) -> String {
        let Self { vrid, priority, interval_ms, address } = self;
        let (family, length) = if address.is_ipv4() { (4, 32) } else { (6, 128) };
        let state = if priority == 255 { "MASTER" } else { "BACKUP" };
        format!(
            "vrrp_instance lab{vrid}-{family} {{
                 state {state}
                 interface eth0
                 virtual_router_id {vrid}
                 priority {priority}
                 advert_int {}.{:03}
                 virtual_ipaddress {{ {address}/{length} dev eth0 }}
             }}\n",
            interval_ms / 1000,
            interval_ms % 1000,
        )
    }
}
