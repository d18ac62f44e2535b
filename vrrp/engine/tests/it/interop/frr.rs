//! Debian's FRR as a peer: zebra and vrrpd, and the macvlan devices that FRR wants made for it.

use std::path::Path;
use std::process::Command;

use crate::interop::dialect::VRID;
use crate::interop::process::{Daemon, TempDir, await_listener};
use crate::interop::setup::{AdvertDelivery, Setup};
use crate::interop::site::{macvlan_link_local, sysctl};
use crate::lab::{Host, await_some};

pub(crate) const VRRPD: &str = "/usr/lib/frr/vrrpd";
const ZEBRA: &str = "/usr/lib/frr/zebra";
/// FRR insists on a user of its group `frrvty`; root is not in it.
const USER: &str = "frr";

/// zebra and vrrpd in one namespace.
pub(crate) struct Frr {
    vrrpd: Daemon,
    zebra: Daemon,
    _scratch: TempDir,
}

impl Frr {
    pub(crate) fn start(host: &Host, setup: &Setup) -> Self {
        make_device(host, setup);
        let scratch = TempDir::new();
        scratch.give_to(USER);
        let directory = scratch.path("");
        let zserv = scratch.path("zserv.api");
        let common = ["-u", USER, "-g", USER, "-P", "0", "--vty_socket", &directory, "-z", &zserv];
        let start = |name: &str, program: &str, configuration: &str| {
            let file = scratch.write(&format!("{name}.conf"), configuration);
            let pid = scratch.path(&format!("{name}.pid"));
            let mut command = vec![program, "-f", &file, "-i", &pid];
            command.extend(common);
            Daemon::start(host, &scratch, name, &command)
        };
        let zebra = start("zebra", ZEBRA, "");
        await_some("zebra's socket", || Path::new(&zserv).exists().then_some(()));
        let vrrpd = start("vrrpd", VRRPD, &configuration(setup));
        await_listener(host, setup.dialect.is_ipv6());
        Self { vrrpd, zebra, _scratch: scratch }
    }

    /// Kills both daemons: the devices stay as they are.
    pub(crate) fn sigkill(&mut self) {
        self.vrrpd.sigkill();
        self.zebra.sigkill();
    }

    /// vrrpd takes its leave; zebra, which sets the devices for it, goes last. On a busy machine it may not come to take this one
    /// down, and its host would answer on.
    pub(crate) fn stop(&mut self) {
        self.vrrpd.stop();
        self.zebra.ip(&["link", "set", "vrrp0", "down"]);
    }
}

/// The device with the virtual router's MAC address that vrrpd looks for.
fn make_device(host: &Host, setup: &Setup) {
    let virtual_mac: Vec<_> = setup.dialect.virtual_mac().iter().map(|byte| format!("{byte:02x}")).collect();
    // Otherwise eth0, too, answers for the addresses of the device, be the router Active or Backup.
    sysctl(host, "net/ipv4/conf/all/arp_ignore", "1");
    // Of an earlier run.
    host.run(|| Command::new("ip").args(["link", "del", "vrrp0"]).output()).unwrap();
    host.ip("link add vrrp0 link eth0 type macvlan mode bridge");
    host.ip("link set vrrp0 addrgenmode none");
    host.ip(&format!("link set vrrp0 address {}", virtual_mac.join(":")));
    if setup.dialect.is_ipv6() {
        host.ip(&format!("addr add {}/64 dev vrrp0 nodad", macvlan_link_local(setup.host)));
        host.ip(&format!("addr add {} dev vrrp0 nodad", setup.dialect.vip_with_length()));
    } else {
        host.ip(&format!("addr add {} dev vrrp0", setup.dialect.vip_with_length()));
    }
    host.ip("link set vrrp0 up");
}

fn configuration(setup: &Setup) -> String {
    assert_eq!(setup.delivery, AdvertDelivery::Multicast, "FRR's vrrpd speaks to the group only");
    let no = if setup.preempt { "" } else { "no " };
    format!(
        "log stdout informational
         interface eth0
         vrrp {VRID} version {version}
         vrrp {VRID} advertisement-interval {interval_ms}
         vrrp {VRID} priority {priority}
         {no}vrrp {VRID} preempt
         vrrp {VRID} {family} {vip}\n",
        version = setup.dialect.version(),
        interval_ms = setup.interval_ms,
        priority = setup.priority,
        family = if setup.dialect.is_ipv6() { "ipv6" } else { "ip" },
        vip = setup.dialect.vip(),
    )
}
