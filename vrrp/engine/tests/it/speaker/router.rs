//! Debian's FRR as the router of a BGP speaker: zebra and bgpd, and bfdd where a test has BFD.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::interop::process::{Daemon, TempDir, there};
use crate::lab::{Host, await_some, require_root};

const BFDD: &str = "/usr/lib/frr/bfdd";
pub(crate) const BGPD: &str = "/usr/lib/frr/bgpd";
const ZEBRA: &str = "/usr/lib/frr/zebra";
/// FRR insists on a user of its group `frrvty`; root is not in it.
const USER: &str = "frr";

/// Returns true if a test with this program can run here: as root, with the program installed. A skipped test says so, and fails where
/// CI=true.
pub(crate) fn require(program: &str) -> bool {
    if !require_root() {
        return false;
    }
    let is_there = there(program);
    assert!(
        is_there || std::env::var("CI").is_err(),
        "{program} is missing; CI=true, so this test must not be skipped: run e2e/tools/packages"
    );
    if !is_there {
        eprintln!("skipped: {program} is missing (run e2e/tools/packages)");
    }
    is_there
}

pub(crate) fn require_frr() -> bool {
    require(BGPD)
}

/// Starts a daemon by its file of settings in the folder.
fn start_daemon(host: &Host, scratch: &TempDir, name: &str, program: &str, more: &[&str]) -> Daemon {
    let [directory, zserv] = ["", "zserv.api"].map(|name| scratch.path(name));
    let [file, pid] = ["conf", "pid"].map(|kind| scratch.path(&format!("{name}.{kind}")));
    let common = ["-f", &file, "-i", &pid, "-u", USER, "-g", USER, "-P", "0", "--vty_socket", &directory];
    let command = [&[program], &common[..], &["-z", &zserv], more].concat();
    Daemon::start(host, scratch, name, &command)
}

/// zebra, bgpd and bfdd in one namespace.
pub(crate) struct Router {
    pub(crate) bgpd: Daemon,
    bfdd: Option<Daemon>,
    _zebra: Daemon,
    scratch: TempDir,
}

impl Router {
    /// Starts AS `asn` with these lines about its neighbours.
    pub(crate) fn start(host: &Host, asn: u32, neighbours: &str) -> Self {
        Self::start_with(host, asn, neighbours, None)
    }

    /// The same with bfdd and these lines about its sessions.
    pub(crate) fn with_bfd(host: &Host, asn: u32, neighbours: &str, sessions: &str) -> Self {
        Self::start_with(host, asn, neighbours, Some(sessions))
    }

    fn start_with(host: &Host, asn: u32, neighbours: &str, sessions: Option<&str>) -> Self {
        let scratch = TempDir::new();
        scratch.give_to(USER);
        let zserv = scratch.path("zserv.api");
        let start = |name: &str, program: &str, configuration: &str, more: &[&str]| {
            scratch.write(&format!("{name}.conf"), configuration);
            start_daemon(host, &scratch, name, program, more)
        };
        let zebra = start("zebra", ZEBRA, "", &[]);
        await_some("zebra's socket", || Path::new(&zserv).exists().then_some(()));
        let bfdd = sessions.map(|sessions| {
            let configuration = format!("log stdout informational\nbfd\n{sessions}\n");
            start("bfdd", BFDD, &configuration, &["--bfdctl", &scratch.path("bfdd.sock")])
        });
        let configuration = format!(
            "log stdout informational
             router bgp {asn}
             bgp router-id 192.0.2.{asn_id}
             no bgp ebgp-requires-policy
             {neighbours}\n",
            asn_id = asn % 200 + 50,
        );
        let bgpd = start("bgpd", BGPD, &configuration, &[]);
        let router = Self { bgpd, bfdd, _zebra: zebra, scratch };
        await_some("bgpd's answer", || router.show("bgp summary").is_object().then_some(()));
        router
    }

    /// Restarts bgpd, while bfdd lives on.
    pub(crate) fn restart_bgpd(&mut self, host: &Host) {
        self.bgpd.stop();
        self.bgpd = start_daemon(host, &self.scratch, "bgpd", BGPD, &[]);
        await_some("bgpd's answer", || self.show("bgp summary").is_object().then_some(()));
    }

    /// Answer to `show … json`.
    pub(crate) fn show(&self, what: &str) -> Value {
        serde_json::from_slice(&self.vtysh(&[&format!("show {what} json")])).unwrap_or_default()
    }

    /// The only session of bfdd.
    pub(crate) fn bfd_session(&self) -> Value {
        let shown: Value =
            serde_json::from_slice(&self.ask("bfdd", &["show bfd peers json"])).unwrap_or_default();
        shown[0].clone()
    }

    /// Has an administrator enter these lines at bfdd.
    pub(crate) fn configure_bfd(&self, lines: &[&str]) {
        let answer = self.ask("bfdd", &[&["configure terminal", "bfd"], lines].concat());
        assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    }

    /// Answer of bgpd.
    pub(crate) fn vtysh(&self, lines: &[&str]) -> Vec<u8> {
        self.ask("bgpd", lines)
    }

    /// Answer of a daemon.
    fn ask(&self, daemon: &str, lines: &[&str]) -> Vec<u8> {
        let directory = self.scratch.path("");
        let lines = lines.iter().flat_map(|line| ["-c", line]);
        let output =
            Command::new("vtysh").args(["--vty_socket", &directory, "-d", daemon]).args(lines).output();
        output.map(|output| output.stdout).unwrap_or_default()
    }

    /// Prefixes of this family (`ipv4`, `ipv6`) with the first path of each.
    pub(crate) fn routes(&self, family: &str) -> Vec<(String, Value)> {
        let shown = self.show(&format!("bgp {family} unicast"));
        let routes = shown["routes"].as_object().cloned().unwrap_or_default();
        routes.into_iter().map(|(prefix, paths)| (prefix, paths[0].clone())).collect()
    }

    /// Waits until it has exactly these prefixes of both families, as routes that it uses.
    pub(crate) fn await_routes(&self, expected: &[&str]) {
        let valid = |(prefix, path): (String, Value)| (path["valid"] == true).then_some(prefix);
        let mut found: Vec<String> = Vec::new();
        let is_as_expected = || {
            found = ["ipv4", "ipv6"]
                .into_iter()
                .flat_map(|family| self.routes(family))
                .filter_map(valid)
                .collect();
            (found == expected).then_some(())
        };
        await_some(&format!("routes {expected:?}"), is_as_expected);
    }

    /// State of this neighbour.
    pub(crate) fn neighbour(&self, address: &str) -> Value {
        self.show(&format!("bgp neighbors {address}"))[address].clone()
    }

    pub(crate) fn sigkill(&mut self) {
        self.bgpd.sigkill();
        if let Some(bfdd) = &mut self.bfdd {
            bfdd.sigkill();
        }
    }
}
