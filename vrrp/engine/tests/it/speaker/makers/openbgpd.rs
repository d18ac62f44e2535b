//! OpenBGPD.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{Kind, Maker, Neighbour, PASSWORD, ROUTER, SIGNED, SIX, configuration};
use crate::interop::process::{Daemon, TempDir};
use crate::lab::{Host, await_some};

pub(crate) struct OpenBgpd {
    daemon: Daemon,
    scratch: TempDir,
}

impl OpenBgpd {
    fn ask(&self, question: &[&str]) -> String {
        let socket = self.scratch.path("bgpd.sock");
        let output = Command::new("bgpctl").args(["-j", "-s", &socket]).args(question).output();
        String::from_utf8_lossy(&output.expect("bgpctl").stdout).into_owned()
    }
}

fn address(own: &str) -> String {
    if own.starts_with("fe80") { format!("{own}%eth0") } else { own.to_owned() }
}

fn settings(neighbour: &Neighbour) -> String {
    let Neighbour { own, router, asn, kind, hold_time } = neighbour;
    let more = match kind {
        Kind::Plain | Kind::ExtendedNextHop => String::new(),
        Kind::Password => format!("tcp md5sig password {PASSWORD}"),
        Kind::TtlSecurity => "ttl-security yes".to_owned(),
        Kind::Multihop => "multihop 2".to_owned(),
        Kind::TwoOctets => "announce as-4byte no".to_owned(),
    };
    format!(
        "neighbor {} {{
            remote-as {asn}
            local-address {}
            passive
            holdtime {hold_time}
            announce IPv4 unicast
            announce IPv6 unicast
            {more}
        }}\n",
        address(own),
        address(router),
    )
}

impl Maker for OpenBgpd {
    const PROGRAM: &str = "/usr/sbin/bgpd";
    /// As the passive side, 7.7 on Linux answers no signed connection.
    const CANNOT: &[&str] = &[SIGNED.own];
    const EXTENDED_NEXT_HOP: bool = false;
    const PRINTED: [&[&str]; 2] = [
        &[
            r#""aspath":"6451264512""#,
            r#""exit_nexthop":"192.0.2.1""#,
            r#""metric":50"#,
            r#""communities":["64512:100","NO_EXPORT"]"#,
            r#""large_communities":["64512:1:2"]"#,
            r#""extended_communities":["rt64512:7","soo64512:8"]"#,
        ],
        &[r#""aspath":"""#, r#""exit_nexthop":"192.0.2.11""#, r#""localpref":150"#],
    ];
    const DEGRADED: [&[&str]; 2] = [
        &[
            r#""aspath":"64512645126451264512645126451264512""#,
            r#""communities":["64512:100","GRACEFUL_SHUTDOWN","NO_EXPORT"]"#,
        ],
        &[r#""localpref":0"#],
    ];
    const TWO_OCTETS: &str = r#""aspath":"42000000014200000001""#;

    fn start(host: &Host) -> Self {
        let scratch = TempDir::new();
        let configuration = format!(
            "AS {ROUTER}
            router-id 192.0.2.2
            socket \"{}\"
            fib-update no
            log updates
            {}
            allow from any\n",
            scratch.path("bgpd.sock"),
            configuration::<Self>(settings)
        );
        // Debian's unit makes the folder that its processes are confined to.
        fs::create_dir_all("/run/openbgpd").unwrap();
        let file = scratch.write("bgpd.conf", &configuration);
        let daemon = Daemon::start(host, &scratch, "bgpd", &[Self::PROGRAM, "-d", "-v", "-f", &file]);
        let bgpd = Self { daemon, scratch };
        await_some("OpenBGPD's answer", || bgpd.ask(&["show"]).contains(SIX.own).then_some(()));
        bgpd
    }

    fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    fn prefixes(&self) -> BTreeSet<String> {
        let table: Value = serde_json::from_str(&self.ask(&["show", "rib"])).unwrap_or_default();
        let routes = table["rib"].as_array().into_iter().flatten();
        routes.filter_map(|route| route["prefix"].as_str()).map(str::to_owned).collect()
    }

    fn route(&self, prefix: &str) -> String {
        self.ask(&["show", "rib", "detail", prefix])
    }

    fn refresh(&self, neighbour: &str) -> bool {
        self.ask(&["neighbor", neighbour, "refresh"]);
        true
    }

    fn shut_down(&self, neighbour: &str, text: &str) -> bool {
        self.ask(&["neighbor", neighbour, "down", text]);
        true
    }

    fn ending(&self, neighbour: &str) -> String {
        self.ask(&["show", "neighbor", neighbour]) + &self.daemon.printed()
    }
}
