//! Debian's FRR, [`Router`].

use std::collections::BTreeSet;

use super::{Kind, Maker, Neighbour, PASSWORD, ROUTER, configuration};
use crate::interop::process::Daemon;
use crate::lab::Host;
use crate::speaker::router::{BGPD, Router};

fn settings(neighbour: &Neighbour) -> String {
    let Neighbour { own, asn, kind, hold_time, .. } = neighbour;
    let interface =
        if neighbour.is_link_local() { format!("neighbor {own} interface eth0") } else { String::new() };
    let more = match kind {
        Kind::Plain => String::new(),
        Kind::Password => format!("neighbor {own} password {PASSWORD}"),
        Kind::TtlSecurity => format!("neighbor {own} ttl-security hops 1"),
        Kind::Multihop => format!("neighbor {own} ebgp-multihop 2"),
        Kind::ExtendedNextHop => format!("neighbor {own} capability extended-nexthop"),
        // It offers nothing at all.
        Kind::TwoOctets => format!("neighbor {own} dont-capability-negotiate"),
    };
    format!(
        "neighbor {own} remote-as {asn}
         neighbor {own} passive
         {interface}
         neighbor {own} timers {} {hold_time}
         {more}
         address-family ipv4 unicast
         neighbor {own} activate
         exit-address-family
         address-family ipv6 unicast
         neighbor {own} activate
         exit-address-family\n",
        hold_time / 3
    )
}

impl Maker for Router {
    const PROGRAM: &str = BGPD;
    const EXTENDED_NEXT_HOP: bool = true;
    const PRINTED: [&[&str]; 2] = [
        &[
            r#""string":"6451264512""#,
            r#""ip":"192.0.2.1""#,
            r#""metric":50"#,
            r#""string":"64512:100no-export""#,
            r#""string":"64512:1:2""#,
            r#""string":"RT:64512:7SoO:64512:8""#,
        ],
        &[r#""string":"Local""#, r#""ip":"192.0.2.11""#, r#""locPrf":150"#],
    ];
    /// It obeys GRACEFUL_SHUTDOWN.
    const DEGRADED: [&[&str]; 2] = [
        &[
            r#""string":"64512645126451264512645126451264512""#,
            r#""string":"64512:100graceful-shutdownno-export""#,
            r#""locPrf":0"#,
        ],
        &[r#""locPrf":0"#],
    ];
    /// It reads no AS4_PATH of a speaker that offers four octets, though it has offered none itself.
    const TWO_OCTETS: &str = r#""string":"2345623456""#;

    fn start(host: &Host) -> Self {
        Self::start(host, ROUTER, &configuration::<Self>(settings))
    }

    fn daemon(&self) -> &Daemon {
        &self.bgpd
    }

    fn prefixes(&self) -> BTreeSet<String> {
        ["ipv4", "ipv6"]
            .into_iter()
            .flat_map(|family| self.routes(family))
            .map(|(prefix, _)| prefix)
            .collect()
    }

    fn route(&self, prefix: &str) -> String {
        let family = if prefix.contains(':') { "ipv6" } else { "ipv4" };
        self.show(&format!("bgp {family} unicast {prefix}")).to_string()
    }

    fn refresh(&self, neighbour: &str) -> bool {
        self.vtysh(&[&format!("clear bgp {neighbour} soft in")]);
        true
    }

    fn shut_down(&self, neighbour: &str, text: &str) -> bool {
        self.vtysh(&[
            "configure",
            &format!("router bgp {ROUTER}"),
            &format!("neighbor {neighbour} shutdown message {text}"),
        ]);
        true
    }

    fn ending(&self, neighbour: &str) -> String {
        self.neighbour(neighbour).to_string() + &self.bgpd.printed()
    }
}
