//! GoBGP: Debian's, and the newest, which `e2e/tools/build` makes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{BFD_TIMERS, Kind, LINK_LOCAL, Maker, Neighbour, OLD, PASSWORD, ROUTER, SIGNED, configuration};
use crate::interop::process::{Daemon, TempDir};
use crate::lab::{Host, await_some};

pub(crate) struct GoBgp {
    daemon: Daemon,
    client: String,
    _scratch: TempDir,
}

impl GoBgp {
    fn start_from<M: Maker>(host: &Host, folder: &str) -> Self {
        let scratch = TempDir::new();
        let configuration = format!(
            "[global.config]\nas = {ROUTER}\nrouter-id = \"192.0.2.2\"\nport = 179\n{}",
            configuration::<M>(|neighbour| settings(neighbour, M::BFD.contains(&neighbour.own)))
        );
        let file = scratch.write("gobgpd.toml", &configuration);
        let command = [&format!("{folder}/gobgpd"), "-f", &file];
        let daemon = Daemon::start(host, &scratch, "gobgpd", &command);
        let gobgp = Self { daemon, client: format!("{folder}/gobgp"), _scratch: scratch };
        await_some("GoBGP's answer", || gobgp.ask(&["neighbor"]).contains("192.0.2.1").then_some(()));
        gobgp
    }

    fn ask(&self, question: &[&str]) -> String {
        self.daemon.run(&[&[&*self.client], question].concat())
    }
}

fn address(own: &str) -> String {
    if own.starts_with("fe80") { format!("{own}%eth0") } else { own.to_owned() }
}

fn settings(neighbour: &Neighbour, has_bfd: bool) -> String {
    let Neighbour { own, asn, kind, hold_time, .. } = neighbour;
    let password = match kind {
        Kind::Password => format!("auth-password = \"{PASSWORD}\""),
        _ => String::new(),
    };
    let more = match kind {
        Kind::Plain | Kind::Password | Kind::ExtendedNextHop | Kind::TwoOctets => "",
        Kind::TtlSecurity => "[neighbors.ttl-security.config]\nenabled = true\nttl-min = 255",
        Kind::Multihop => "[neighbors.ebgp-multihop.config]\nenabled = true\nmultihop-ttl = 2",
    };
    let (transmit, receive, multiplier) = BFD_TIMERS;
    let bfd = format!(
        "[neighbors.bfd.config]
        enabled = {has_bfd}
        desired-minimum-tx-interval = {transmit}000
        required-minimum-receive = {receive}000
        detection-multiplier = {multiplier}"
    );
    let bfd = if has_bfd { bfd } else { String::new() };
    let family = |name: &str| {
        format!("[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{name}-unicast\"")
    };
    format!(
        "[[neighbors]]
        [neighbors.config]
        neighbor-address = \"{}\"
        peer-as = {asn}
        {password}
        [neighbors.transport.config]
        passive-mode = true
        [neighbors.timers.config]
        hold-time = {hold_time}
        keepalive-interval = {}
        {more}
        {bfd}
        {}
        {}\n",
        address(own),
        hold_time / 3,
        family("ipv4"),
        family("ipv6"),
    )
}

impl Maker for GoBgp {
    const PROGRAM: &str = "/usr/bin/gobgpd";
    /// It always reads AS numbers of four bytes.
    const CANNOT: &[&str] = &[OLD.own];
    const EXTENDED_NEXT_HOP: bool = true;
    const PRINTED: [&[&str]; 2] = [
        &[
            r#""as_paths":[{"segment_type":2,"num":2,"asns":[64512,64512]}]"#,
            r#""nexthop":"192.0.2.1""#,
            r#""metric":50"#,
            r#""communities":[4227858532,4294967041]"#,
            r#"{"ASN":64512,"LocalData1":1,"LocalData2":2}"#,
            r#""value":"64512:7""#,
            r#""value":"64512:8""#,
        ],
        &[r#""nexthop":"192.0.2.11""#, r#""value":150"#],
    ];
    const DEGRADED: [&[&str]; 2] = [
        &[
            r#""asns":[64512,64512,64512,64512,64512,64512,64512]"#,
            r#""communities":[4227858532,4294901760,4294967041]"#,
        ],
        &[r#"{"type":5,"value":0}"#],
    ];

    fn start(host: &Host) -> Self {
        Self::start_from::<Self>(host, "/usr/bin")
    }

    fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    fn prefixes(&self) -> BTreeSet<String> {
        let table = |family| self.ask(&["-j", "global", "rib", "-a", family]);
        let tables = ["ipv4", "ipv6"].map(|family| serde_json::from_str::<Value>(&table(family)).ok());
        let all = tables.iter().flatten().filter_map(Value::as_object).flat_map(|table| table.keys());
        all.cloned().collect()
    }

    fn route(&self, prefix: &str) -> String {
        let family = if prefix.contains(':') { "ipv6" } else { "ipv4" };
        self.ask(&["-j", "global", "rib", prefix, "-a", family])
    }

    fn refresh(&self, _neighbour: &str) -> bool {
        // It keeps all that it received and never asks.
        false
    }

    fn shut_down(&self, neighbour: &str, text: &str) -> bool {
        self.ask(&["neighbor", neighbour, "shutdown", "--reason", text]);
        true
    }

    fn ending(&self, neighbour: &str) -> String {
        self.ask(&["-j", "neighbor", neighbour]) + &self.daemon.printed()
    }
}

/// The newest, of the same configuration and client.
pub(crate) struct GoBgp4(GoBgp);

/// Folder of the newest, which is built if it is not there yet.
fn built() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/tools/build");
    let output = Command::new(script).arg("gobgp").output().expect("e2e/tools/build");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Maker for GoBgp4 {
    const PROGRAM: &str = GoBgp::PROGRAM;
    const CANNOT: &[&str] = GoBgp::CANNOT;
    const EXTENDED_NEXT_HOP: bool = GoBgp::EXTENDED_NEXT_HOP;
    const PRINTED: [&[&str]; 2] = GoBgp::PRINTED;
    const DEGRADED: [&[&str]; 2] = GoBgp::DEGRADED;
    const BFD: &[&str] = &[SIGNED.own, LINK_LOCAL.own];

    fn start(host: &Host) -> Self {
        Self(GoBgp::start_from::<Self>(host, &built()))
    }

    fn daemon(&self) -> &Daemon {
        self.0.daemon()
    }

    fn prefixes(&self) -> BTreeSet<String> {
        self.0.prefixes()
    }

    fn route(&self, prefix: &str) -> String {
        self.0.route(prefix)
    }

    fn refresh(&self, neighbour: &str) -> bool {
        self.0.refresh(neighbour)
    }

    fn shut_down(&self, neighbour: &str, text: &str) -> bool {
        self.0.shut_down(neighbour, text)
    }

    fn ending(&self, neighbour: &str) -> String {
        self.0.ending(neighbour)
    }
}
