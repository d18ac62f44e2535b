//! Debian's keepalived as a peer.

use crate::interop::dialect::VRID;
use crate::interop::process::{Daemon, TempDir, await_listener};
use crate::interop::setup::{AdvertDelivery, Setup};
use crate::lab::Host;

pub(crate) const PROGRAM: &str = "/usr/sbin/keepalived";

/// One instance in one namespace.
pub(crate) struct Keepalived {
    daemon: Daemon,
    _scratch: TempDir,
}

impl Keepalived {
    pub(crate) fn start(host: &Host, setup: &Setup) -> Self {
        let scratch = TempDir::new();
        let file = scratch.write("keepalived.conf", &configuration(setup));
        let (pid, vrrp_pid) = (scratch.path("keepalived.pid"), scratch.path("vrrp.pid"));
        let command = [
            PROGRAM,
            "--dont-fork",
            "--vrrp",
            "--log-console",
            "--log-detail",
            "--use-file",
            &file,
            "--pid",
            &pid,
            "--vrrp_pid",
            &vrrp_pid,
        ];
        let daemon = Daemon::start(host, &scratch, "keepalived", &command);
        await_listener(host, setup.dialect.is_ipv6());
        Self { daemon, _scratch: scratch }
    }

    /// Kills it: its addresses stay on the interface.
    pub(crate) fn sigkill(&mut self) {
        self.daemon.sigkill();
    }

    pub(crate) fn stop(&mut self) {
        self.daemon.stop();
    }
}

fn configuration(setup: &Setup) -> String {
    let nopreempt = if setup.preempt { "" } else { "nopreempt" };
    let virtual_mac = if setup.virtual_mac { "use_vmac" } else { "" };
    let unicast = match setup.delivery {
        AdvertDelivery::Multicast => String::new(),
        AdvertDelivery::Unicast { keepalived_ttl, .. } => {
            let peers: Vec<_> = setup.peers.iter().map(ToString::to_string).collect();
            let ttl = keepalived_ttl.map(|ttl| format!("unicast_ttl {ttl}\n")).unwrap_or_default();
            format!("{ttl}unicast_src_ip {}\nunicast_peer {{\n{}\n}}", setup.source(), peers.join("\n"))
        }
    };
    format!(
        "global_defs {{\nrouter_id interop\nvrrp_version {version}\n}}
         vrrp_instance interop {{
         state BACKUP
         interface eth0
         virtual_router_id {VRID}
         priority {priority}
         advert_int {seconds}.{millis:03}
         {nopreempt}
         {virtual_mac}
         {unicast}
         virtual_ipaddress {{
         {vip}
         }}
         }}\n",
        version = setup.dialect.version(),
        priority = setup.priority,
        seconds = setup.interval_ms / 1000,
        millis = setup.interval_ms % 1000,
        vip = setup.dialect.vip_with_length(),
    )
}
