//! FRR, Debian's, as another router of the LAN: a foreign router beside keepalived, or a BGP router.

mod bgp;

use std::{net::Ipv4Addr, time::Duration};

use anyhow::Context as _;
use serde::Deserialize;

use crate::{lab::Lab, wait::await_that};

pub use bgp::{BgpPath, Detection};
pub(crate) use bgp::{nodes, router};

/// Time limit of zebra's start.
const LIMIT: Duration = Duration::from_secs(30);
const ZEBRA: &str = "zebra";
const VRRPD: &str = "vrrpd";

/// A virtual router of FRR's, of version 3, priority 100 and one address, that sends its adverts each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frr {
    /// VRID.
    pub vrid: u8,
    /// The address, on a device of its own with the virtual router's MAC address.
    pub address: Ipv4Addr,
}

/// Status of a virtual router as FRR reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrrStatus {
    /// True if it is Active.
    pub is_active: bool,
    /// Number of state changes.
    pub transitions: u64,
    /// Adverts received and accepted.
    pub received: u64,
    /// Adverts sent.
    pub sent: u64,
}

impl Lab {
    /// Starts FRR on a host that is no node, one at a time there.
    pub async fn start_frr(&self, host: &str, router: Frr) -> anyhow::Result<()> {
        let Frr { vrid, address } = router;
        let vrrpd = format!(
            "interface eth0
 vrrp {vrid} version 3
 vrrp {vrid} advertisement-interval 1000
 vrrp {vrid} ip {address}"
        );
        let device = format!(
            "sysctl -qw net.ipv4.conf.all.arp_ignore=1
             ip link add vrrp0 link eth0 type macvlan mode bridge
             ip link set vrrp0 addrgenmode none address 00:00:5e:00:01:{vrid:02x}
             ip addr add {address}/24 dev vrrp0 noprefixroute
             ip link set vrrp0 up"
        );
        self.exec(host, &["sh", "-ec", &device]).await?;
        self.start_zebra(host, &[(VRRPD, &vrrpd)]).await?;
        self.start_frr_daemon(host, VRRPD, &[])
    }

    /// Writes the files of these daemons, starts zebra, which they need, and waits for it.
    async fn start_zebra(&self, host: &str, files: &[(&str, &str)]) -> anyhow::Result<()> {
        let folder = folder(host);
        let file = |(name, text): &(&str, &str)| format!("cat >{folder}/{name}.conf <<'END'\n{text}\nEND\n");
        let files: String = files.iter().map(file).collect();
        // All want a user of the group `frrvty`, which root is not in.
        self.sandbox.script(&format!(
            "rm -rf {folder} && mkdir {folder} && touch {folder}/zebra.conf\n{files}chown -R frr:frr {folder}"
        ))?;
        self.start_frr_daemon(host, ZEBRA, &[])?;
        await_that(&format!("zebra on {host}"), LIMIT, async || {
            self.exec(host, &["test", "-S", &format!("{folder}/zserv.api")]).await.map(Some)
        })
        .await
        .map(drop)
    }

    fn start_frr_daemon(&self, host: &str, name: &str, further: &[&str]) -> anyhow::Result<()> {
        let folder = folder(host);
        let program = format!("/usr/lib/frr/{name}");
        let [configuration, pid] = ["conf", "pid"].map(|end| format!("{folder}/{name}.{end}"));
        let zebra = format!("{folder}/zserv.api");
        let command = [&*program, "-f", &configuration, "-i", &pid, "-z", &zebra, "--vty_socket", &folder];
        let command = [&command[..], &["-u", "frr", "-g", "frr", "-P", "0"], further].concat();
        self.start_here(host, name, command.into_iter().map(str::to_owned).collect())
    }

    /// Returns the status of the virtual router of FRR on a host; an error while FRR is starting.
    pub async fn frr_status(&self, host: &str) -> anyhow::Result<FrrStatus> {
        let folder = folder(host);
        let command = ["vtysh", "--vty_socket", &folder, "-d", VRRPD, "-c", "show vrrp json"];
        let told = self.exec(host, &command).await?;
        status(&told).with_context(|| format!("FRR on {host} says {told}"))
    }
}

/// Its files: the lab's own memory, where its user may go.
fn folder(host: &str) -> String {
    format!("/run/lab/frr-{host}")
}

fn status(told: &str) -> anyhow::Result<FrrStatus> {
    #[derive(Deserialize)]
    struct Router {
        v4: Family,
    }
    #[derive(Deserialize)]
    struct Family {
        status: String,
        stats: Stats,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Stats {
        adver_tx: u64,
        adver_rx: u64,
        transitions: u64,
    }
    let [Router { v4: Family { status, stats } }] = serde_json::from_str(told)?;
    Ok(FrrStatus {
        is_active: status == "Master",
        transitions: stats.transitions,
        received: stats.adver_rx,
        sent: stats.adver_tx,
    })
}
