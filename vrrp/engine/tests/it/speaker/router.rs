//! Debian's FRR as the router of a BGP speaker: zebra and bgpd.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::interop::process::{Daemon, TempDir, there};
use crate::lab::{Host, await_some, require_root};

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

/// zebra and bgpd in one namespace.
pub(crate) struct Router {
    pub(crate) bgpd: Daemon,
    _zebra: Daemon,
    scratch: TempDir,
}

impl Router {
    /// Starts AS `asn` with these lines about its neighbours.
    pub(crate) fn start(host: &Host, asn: u32, neighbours: &str) -> Self {
        let scratch = TempDir::new();
        scratch.give_to(USER);
        let (directory, zserv) = (scratch.path(""), scratch.path("zserv.api"));
        let start = |name: &str, program: &str, configuration: &str, more: &[&str]| {
            let file = scratch.write(&format!("{name}.conf"), configuration);
            let pid = scratch.path(&format!("{name}.pid"));
            let common =
                ["-f", &file, "-i", &pid, "-u", USER, "-g", USER, "-P", "0", "--vty_socket", &directory];
            let command = [&[program], &common[..], &["-z", &zserv], more].concat();
            Daemon::start(host, &scratch, name, &command)
        };
        let zebra = start("zebra", ZEBRA, "", &[]);
        await_some("zebra's socket", || Path::new(&zserv).exists().then_some(()));
        let configuration = format!(
            "log stdout informational
             router bgp {asn}
             bgp router-id 192.0.2.{asn_id}
             no bgp ebgp-requires-policy
             {neighbours}\n",
            asn_id = asn % 200 + 50,
        );
        let bgpd = start("bgpd", BGPD, &configuration, &[]);
        let router = Self { bgpd, _zebra: zebra, scratch };
        await_some("bgpd's answer", || router.show("bgp summary").is_object().then_some(()));
        router
    }

    /// Answer to `show … json`.
    pub(crate) fn show(&self, what: &str) -> Value {
        serde_json::from_slice(&self.vtysh(&[&format!("show {what} json")])).unwrap_or_default()
    }

    /// Output of these commands of `vtysh`.
    pub(crate) fn vtysh(&self, commands: &[&str]) -> Vec<u8> {
        let directory = self.scratch.path("");
        let commands = commands.iter().flat_map(|command| ["-c", command]);
        let output =
            Command::new("vtysh").args(["--vty_socket", &directory, "-d", "bgpd"]).args(commands).output();
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
    }
}
