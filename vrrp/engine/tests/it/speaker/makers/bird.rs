//! BIRD.

use std::collections::BTreeSet;
use std::process::Command;

use super::{
    BFD_TIMERS, FAR, Kind, LINK_LOCAL, Maker, Neighbour, PASSWORD, ROUTER, SIGNED, configuration, first_words,
};
use crate::interop::process::{Daemon, TempDir};
use crate::lab::{Host, await_some};

pub(crate) struct Bird {
    daemon: Daemon,
    scratch: TempDir,
}

impl Bird {
    /// Starts it with these settings.
    pub(crate) fn with(host: &Host, configuration: &str) -> Self {
        let scratch = TempDir::new();
        let configuration = format!(
            "log stderr all;\nprotocol device {{}}\nprotocol direct {{ ipv4; ipv6; }}\n{configuration}"
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
    // It takes no AS of four bytes in the settings of such a session.
    let peer_as = if *kind == Kind::TwoOctets { "external".to_owned() } else { format!("as {asn}") };
    let bfd = if Bird::BFD.contains(own) { "bfd on;" } else { "" };
    let (more, ipv4) = match kind {
        Kind::Plain => (String::new(), ""),
        Kind::Password => (format!("password \"{PASSWORD}\";"), ""),
        Kind::TtlSecurity => ("ttl security on;".to_owned(), ""),
        Kind::Multihop => ("multihop 2;".to_owned(), ""),
        Kind::ExtendedNextHop => (String::new(), "extended next hop on;"),
        Kind::TwoOctets => ("enable as4 off;".to_owned(), ""),
    };
    format!(
        "protocol bgp {name} {{
            local {router} as {ROUTER}; neighbor {own} {peer_as}; {interface}
            passive on; error wait time 1, 2; hold time {hold_time}; {more} {bfd}
            ipv4 {{ import filter vips; export none; {ipv4} }};
            ipv6 {{ import filter vips; export none; }};
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
    const DEGRADED: [&[&str]; 2] = [
        &[
            "BGP.as_path:64512645126451264512645126451264512BGP",
            "BGP.community:(64512,100)(65535,0)(65535,65281)",
            "BGP.local_pref:0BGP",
        ],
        &["BGP.local_pref:0BGP"],
    ];
    const TWO_OCTETS: &str = "BGP.as_path:42000000014200000001BGP";
    const BFD: &[&str] = &[SIGNED.own, FAR.own, LINK_LOCAL.own];

    fn start(host: &Host) -> Self {
        let (transmit, receive, multiplier) = BFD_TIMERS;
        let timers =
            format!("min tx interval {transmit} ms; min rx interval {receive} ms; multiplier {multiplier};");
        let configuration = format!(
            "router id 192.0.2.2;
             filter vips {{ if (65535, 0) ~ bgp_community then bgp_local_pref = 0; accept; }}
             protocol bfd {{
                 interface \"eth0\" {{ {timers} }};
                 multihop {{ {timers} }};
             }}
             protocol static {{ ipv4; route 198.51.100.1/32 via 192.0.2.3; }}
             {}",
            configuration::<Self>(settings)
        );
        Self::with(host, &configuration)
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
