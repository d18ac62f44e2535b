//! keepalived, Debian's, as another router of the LAN: for comparison, or as a foreign router.

mod counts;

use std::{fs, net::IpAddr, path::PathBuf};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use crate::lab::Lab;

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
        self.start_keepalived_with(host, &configuration(routers, &Further::None))
    }

    /// The same with routers that are Active together, and tell the node's conntrackd, which runs ([`Lab::start_conntrackd`]), what they
    /// become. Who comes back waits for so long before it takes addresses back.
    pub fn start_keepalived_telling(
        &self,
        host: &str,
        routers: &[Keepalived],
        preempt_delay_seconds: u32,
    ) -> anyhow::Result<()> {
        let script = self.conntrackd_script(host).display().to_string();
        let telling = Further::Telling(Telling { script, preempt_delay_seconds });
        self.start_keepalived_with(host, &configuration(routers, &telling))
    }

    /// The same with one router whose priority is lower by 50 while curl gets no good answer from `url`, asked each second: twice none until
    /// it is, twice one until it is no longer.
    pub fn start_keepalived_checking(&self, host: &str, router: Keepalived, url: &str) -> anyhow::Result<()> {
        let checking = Further::Checking { url: url.to_owned() };
        self.start_keepalived_with(host, &configuration(&[router], &checking))
    }

    fn start_keepalived_with(&self, host: &str, configuration: &str) -> anyhow::Result<()> {
        let folder = self.keepalived_folder(host);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let file = folder.join("keepalived.conf");
        fs::write(&file, configuration).with_context(|| format!("writing {}", file.display()))?;
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
        self.start_here(host, KEEPALIVED, command.map(str::to_owned).to_vec())
    }

    /// Its files.
    fn keepalived_folder(&self, host: &str) -> PathBuf {
        self.folder().join(format!("keepalived-{host}"))
    }

    /// Ends the keepalived of a host with SIGTERM: it resigns.
    pub async fn stop_keepalived(&self, host: &str) -> anyhow::Result<()> {
        self.end_process(host, KEEPALIVED, Signal::SIGTERM).await
    }

    /// Sends a signal, as SIGSTOP or SIGCONT, to the keepalived of a host: to all of its processes, of which the first only watches
    /// over the one that elects.
    pub fn signal_keepalived(&self, host: &str, signal: Signal) -> anyhow::Result<()> {
        let first = Pid::from_raw(self.process_id(host, KEEPALIVED)?);
        for pid in self.sandbox.processes(|pid| pid == first) {
            kill(pid, signal).with_context(|| format!("sending {signal} to keepalived on {host}"))?;
        }
        Ok(())
    }

    /// A Service before the backend `of`, of a class that nobody serves, with `address` in its status: kube-proxy makes no
    /// difference between it and one of Windlass'.
    pub async fn foreign_service(&self, name: &str, of: &str, address: IpAddr) -> anyhow::Result<()> {
        self.foreign_service_with(name, of, address, |_| ()).await.map(drop)
    }

    /// The same; `tweak` may change the Service before it is sent.
    pub async fn foreign_service_with(
        &self,
        name: &str,
        of: &str,
        address: IpAddr,
        tweak: impl FnOnce(&mut Service),
    ) -> anyhow::Result<Service> {
        self.same_backend(name, of)?;
        let tweak = |service: &mut Service| {
            service.spec.get_or_insert_default().load_balancer_class =
                Some("bench.example/keepalived".into());
            tweak(service);
        };
        let service = self.load_balancer(name, tweak).await?;
        let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address, "ipMode": "VIP"}]}}});
        let services: Api<Service> = Api::default_namespaced(self.client());
        services.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(service)
    }

    /// Removes a Service of namespace `default`.
    pub async fn remove_service(&self, name: &str) -> anyhow::Result<()> {
        let services: Api<Service> = Api::default_namespaced(self.client());
        services.delete(name, &DeleteParams::default()).await.with_context(|| format!("removing {name}"))?;
        Ok(())
    }
}

/// Work of routers beside the election.
enum Further {
    /// Nothing.
    None,
    /// They notify conntrackd of their new state.
    Telling(Telling),
    /// They check a server.
    Checking { url: String },
}

/// Notification of conntrackd by routers.
struct Telling {
    /// Called with `primary`, `backup` or `fault`.
    script: String,
    preempt_delay_seconds: u32,
}

/// The file of these virtual routers.
fn configuration(routers: &[Keepalived], further: &Further) -> String {
    let (global, blocks, further) = match further {
        Further::None => Default::default(),
        Further::Telling(telling) => telling.words(routers),
        Further::Checking { url } => checking(url),
    };
    let instances: String = routers.iter().map(|router| router.instance(&further)).collect();
    format!("global_defs {{\n    router_id lab\n    vrrp_version 3\n{global}}}\n{blocks}{instances}")
}

/// Returns the script's user, the script, and further lines of each instance.
fn checking(url: &str) -> (&'static str, String, String) {
    let script = format!(
        "vrrp_script api {{
             script \"/usr/bin/curl -sfk --noproxy * --max-time 2 {url} -o /dev/null\"
             interval 1
             timeout 2
             fall 2
             rise 2
             weight -50
         }}\n"
    );
    ("    script_user root\n", script, "track_script { api }".into())
}

impl Telling {
    /// Returns the script's user, the group that calls the script, and further lines of each instance.
    fn words(&self, routers: &[Keepalived]) -> (&'static str, String, String) {
        let Self { script, preempt_delay_seconds } = self;
        let names: Vec<String> = routers.iter().map(|router| router.name()).collect();
        let calls: String = [("master", "primary"), ("backup", "backup"), ("fault", "fault")]
            .map(|(state, told)| format!("    notify_{state} \"{script} {told}\"\n"))
            .concat();
        let group = format!("vrrp_sync_group lab {{\n    group {{ {} }}\n{calls}}}\n", names.join(" "));
        ("    script_user root\n", group, format!("preempt_delay {preempt_delay_seconds}"))
    }
}

impl Keepalived {
    fn name(self) -> String {
        format!("lab{}-{}", self.vrid, if self.address.is_ipv4() { 4 } else { 6 })
    }

    fn instance(self, further: &str) -> String {
        let Self { vrid, priority, interval_ms, address } = self;
        let (name, length) = (self.name(), if address.is_ipv4() { 32 } else { 128 });
        let state = if priority == 255 { "MASTER" } else { "BACKUP" };
        format!(
            "vrrp_instance {name} {{
                 state {state}
                 interface eth0
                 virtual_router_id {vrid}
                 priority {priority}
                 advert_int {}.{:03}
                 virtual_ipaddress {{ {address}/{length} dev eth0 }}
                 {further}
             }}\n",
            interval_ms / 1000,
            interval_ms % 1000,
        )
    }
}
