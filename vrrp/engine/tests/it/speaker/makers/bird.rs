//! BIRD.

use std::collections::BTreeSet;
use std::process::Command;

use super::{Kind, Maker, Neighbour, PASSWORD, ROUTER, configuration, first_words};
use crate::interop::process::{Daemon, TempDir};
use crate::lab::{Host, await_some};

pub(crate) struct Bird {
    daemon: Daemon,
    scratch: TempDir,
}

impl Bird {
    fn ask(&self, question: &[&str]) -> String {
        let socket = self.scratch.path("bird.ctl");
        let output = Command::new("birdc").args(["-r", "-s", &socket]).args(question).output();
        String::from_utf8_lossy(&output.expect("birdc").stdout).into_owned()
    }

    fn order(&self, order: &[&str]) {
        let socket = self.scratch.path("bird.ctl");
        let output = Command::new("birdc").args(["-s", &socket]).args(order).output().expect("birdc");
        assert!(output.status.success(), "{order:?}: {output:?}");
    }
}

/// Name of the session with a neighbour.
fn protocol(own: &str) -> String {
    format!("p_{}", own.replace(['.', ':'], "_"))
}

fn settings(neighbour: &Neighbour) -> String {
    let Neighbour { own, router, asn, kind, hold_time } = neighbour;
    let name = protocol(own);
    let interface = if neighbour.is_link_local() { "interface \"eth0\";" } else { "" };
    let (more, ipv4) = match kind {
        Kind::Plain => (String::new(), ""),
        Kind::Password => (format!("password \"{PASSWORD}\";"), ""),
        Kind::TtlSecurity => ("ttl security on;".to_owned(), ""),
        Kind::Multihop => ("multihop 2;".to_owned(), ""),
        Kind::ExtendedNextHop => (String::new(), "extended next hop on;"),
    };
    format!(
        "protocol bgp {name} {{
            local {router} as {ROUTER}; neighbor {own} as {asn}; {interface}
            passive on; hold time {hold_time}; {more}
            ipv4 {{ import all; export none; {ipv4} }};
            ipv6 {{ import all; export none; }};
        }}\n"
    )
}

impl Maker for Bird {
    const PROGRAM: &str = "/usr/sbin/bird";
    const EXTENDED_NEXT_HOP: bool = true;
    const PRINTED: [&[&str]; 2] = [
        &[
            "BGP.as_path:6451264512",
            "BGP.next_hop:192.0.2.1",
            "BGP.med:50",
            "BGP.community:(64512,100)(65535,65281)",
            "BGP.large_community:(64512,1,2)",
            "BGP.ext_community:(rt,64512,7)(ro,64512,8)",
        ],
        &["BGP.as_path:", "BGP.next_hop:192.0.2.11", "BGP.local_pref:150", "BGP.community:(64512,100)"],
    ];

    fn start(host: &Host) -> Self {
        let scratch = TempDir::new();
        let configuration = format!(
            "log stderr all;
             router id 192.0.2.2;
             protocol device {{}}
             protocol direct {{ ipv4; ipv6; }}
             protocol static {{ ipv4; route 198.51.100.1/32 via 192.0.2.3; }}
             {}",
            configuration::<Self>(settings)
        );
        let file = scratch.write("bird.conf", &configuration);
        let (socket, pid) = (scratch.path("bird.ctl"), scratch.path("bird.pid"));
        let command = [Self::PROGRAM, "-f", "-c", &file, "-s", &socket, "-P", &pid];
        let daemon = Daemon::start(host, &scratch, "bird", &command);
        let bird = Self { daemon, scratch };
        await_some("BIRD's answer", || {
            bird.ask(&["show", "status"]).contains("up and running").then_some(())
        });
        bird
    }

    fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    fn prefixes(&self) -> BTreeSet<String> {
        first_words(&self.ask(&["show", "route", "where", "source", "=", "RTS_BGP"]))
    }

    fn route(&self, prefix: &str) -> String {
        self.ask(&["show", "route", "for", prefix, "all"])
    }

    fn refresh(&self, neighbour: &str) -> bool {
        self.order(&["reload", "in", &protocol(neighbour)]);
        true
    }

    fn shut_down(&self, neighbour: &str, text: &str) -> bool {
        self.order(&["disable", &protocol(neighbour), &format!("\"{text}\"")]);
        true
    }

    fn ending(&self, neighbour: &str) -> String {
        self.ask(&["show", "protocols", "all", &protocol(neighbour)]) + &self.daemon.printed()
    }
}
