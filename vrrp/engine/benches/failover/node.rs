//! A node: its router and its echo server.

use std::io;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, killpg};
use windlass_engine::Family;

use crate::interop::process::{Daemon, TempDir, await_listener};
use crate::lab::{Host, await_some};
use crate::setup::{Group, PRIORITIES, ROUTER, System, VRID, family_name};
use crate::shared::site::{link_local, source, vip};
use crate::shared::{OBSERVER, own_path};
use crate::{echo, router};

const KEEPALIVED: &str = "/usr/sbin/keepalived";
const VRRPD: &str = "/usr/lib/frr/vrrpd";
const ZEBRA: &str = "/usr/lib/frr/zebra";
/// FRR insists on a user of its group `frrvty`; root is not in it.
const FRR_USER: &str = "frr";

/// Programs that must be installed for this system.
pub(crate) fn missing(system: System) -> Option<&'static str> {
    let programs: &[&'static str] = match system {
        System::Windlass => &[],
        System::Keepalived => &[KEEPALIVED],
        System::Frr => &[VRRPD, ZEBRA],
    };
    programs.iter().copied().find(|program| !Path::new(program).exists())
}

/// See the module. What a node runs dies with it.
pub(crate) struct Node {
    /// The router first: what is signalled first.
    router: Vec<Daemon>,
    echo: Daemon,
    _scratch: TempDir,
}

impl Node {
    /// Starts the node with this number (0 of higher priority) on its host.
    pub(crate) fn start(host: &Host, group: Group, number: usize) -> Self {
        let scratch = TempDir::new();
        let address = vip(group.family, 0, 1).to_string();
        let id = number.to_string();
        let echo = ["chrt", "-f", OBSERVER, &own_path(), echo::ROLE, &address, &id];
        let echo = Daemon::start(host, &scratch, "echo", &echo);
        let router = match group.system {
            System::Windlass => vec![windlass(host, &scratch, group, number)],
            System::Keepalived => vec![keepalived(host, &scratch, group, number)],
            System::Frr => frr(host, &scratch, group, number),
        };
        await_listener(host, group.family == Family::V6);
        Self { router, echo, _scratch: scratch }
    }

    /// Sends a signal to all that runs on the node.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        for daemon in self.router.iter().chain([&self.echo]) {
            killpg(daemon.pid(), signal)?;
        }
        Ok(())
    }

    /// Asks the router to end; the echo server stays.
    pub(crate) fn retire(&self) -> io::Result<()> {
        Ok(nix::sys::signal::kill(self.router[0].pid(), Signal::SIGTERM)?)
    }
}

// `chrt -o 0`: at ordinary priority at first, not at the observer's, which starts them.

fn windlass(host: &Host, scratch: &TempDir, group: Group, number: usize) -> Daemon {
    let words = [
        "chrt".to_owned(),
        "-o".to_owned(),
        "0".to_owned(),
        own_path(),
        router::ROLE.to_owned(),
        PRIORITIES[number].to_string(),
        group.interval_ms.to_string(),
        source(group.family, number).to_string(),
        source(group.family, 1 - number).to_string(),
        vip(group.family, 0, 1).to_string(),
    ];
    Daemon::start(host, scratch, "windlass", &words.each_ref().map(String::as_str))
}

fn keepalived(host: &Host, scratch: &TempDir, group: Group, number: usize) -> Daemon {
    let configuration = format!(
        "global_defs {{\nrouter_id bench\nvrrp_version 3\nvrrp_rt_priority {ROUTER}\n}}
         vrrp_instance bench {{
         state BACKUP
         interface eth0
         virtual_router_id {VRID}
         priority {priority}
         advert_int {seconds}.{millis:03}
         virtual_ipaddress {{
         {vip} dev eth0
         }}
         }}\n",
        priority = PRIORITIES[number],
        seconds = group.interval_ms / 1000,
        millis = group.interval_ms % 1000,
        vip = vip_with_length(group.family),
    );
    let file = scratch.write("keepalived.conf", &configuration);
    let (pid, vrrp) = (scratch.path("keepalived.pid"), scratch.path("vrrp.pid"));
    let command = [
        "chrt",
        "-o",
        "0",
        KEEPALIVED,
        "--dont-fork",
        "--vrrp",
        "--log-console",
        "--use-file",
        &file,
        "--pid",
        &pid,
        "--vrrp_pid",
        &vrrp,
    ];
    Daemon::start(host, scratch, "keepalived", &command)
}

fn frr(host: &Host, scratch: &TempDir, group: Group, number: usize) -> Vec<Daemon> {
    make_macvlan(host, group.family, number);
    scratch.give_to(FRR_USER);
    let (directory, zserv) = (scratch.path(""), scratch.path("zserv.api"));
    let common = ["-u", FRR_USER, "-g", FRR_USER, "-P", "0", "--vty_socket", &directory, "-z", &zserv];
    let start = |name: &str, program: &str, configuration: &str| {
        let file = scratch.write(&format!("{name}.conf"), configuration);
        let pid = scratch.path(&format!("{name}.pid"));
        let mut command = vec!["chrt", "-f", ROUTER, program, "-f", &file, "-i", &pid];
        command.extend(common);
        Daemon::start(host, scratch, name, &command)
    };
    let zebra = start("zebra", ZEBRA, "");
    await_some("zebra's socket", || Path::new(&zserv).exists().then_some(()));
    let configuration = format!(
        "interface eth0
         vrrp {VRID} version 3
         vrrp {VRID} advertisement-interval {interval_ms}
         vrrp {VRID} priority {priority}
         vrrp {VRID} {family} {vip}\n",
        interval_ms = group.interval_ms,
        priority = PRIORITIES[number],
        family = if group.family == Family::V6 { "ipv6" } else { "ip" },
        vip = vip(group.family, 0, 1),
    );
    vec![start("vrrpd", VRRPD, &configuration), zebra]
}

/// The device with the virtual router's MAC address that vrrpd looks for.
fn make_macvlan(host: &Host, family: Family, number: usize) {
    // Otherwise eth0, too, answers for the addresses of the device, be the router Active or Backup.
    host.run(|| std::fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1").expect("arp_ignore"));
    // Of an earlier run.
    host.run(|| Command::new("ip").args(["link", "del", "vrrp0"]).output().expect("run `ip`"));
    host.ip("link add vrrp0 link eth0 type macvlan mode bridge");
    host.ip("link set vrrp0 addrgenmode none");
    let kind = if family == Family::V6 { 2 } else { 1 };
    host.ip(&format!("link set vrrp0 address 00:00:5e:00:{kind:02x}:{VRID:02x}"));
    if family == Family::V6 {
        let own = std::net::Ipv6Addr::from(u128::from(link_local(0, number)) + 1);
        host.ip(&format!("addr add {own}/64 dev vrrp0 nodad"));
        host.ip(&format!("addr add {} dev vrrp0 nodad", vip_with_length(family)));
    } else {
        host.ip(&format!("addr add {} dev vrrp0", vip_with_length(family)));
    }
    host.ip("link set vrrp0 up");
}

fn vip_with_length(family: Family) -> String {
    format!("{}/{}", vip(family, 0, 1), if family == Family::V6 { 128 } else { 32 })
}

/// For messages.
pub(crate) fn describe(group: Group) -> String {
    format!("{} {} {} ms", group.system.name(), family_name(group.family), group.interval_ms)
}

/// Source of the adverts of the node with this number.
pub(crate) fn advertises_from(group: Group, number: usize) -> std::net::IpAddr {
    match (group.system, group.family) {
        (System::Frr, Family::V6) => std::net::Ipv6Addr::from(u128::from(link_local(0, number)) + 1).into(),
        (System::Frr | System::Keepalived | System::Windlass, _) => source(group.family, number),
    }
}
