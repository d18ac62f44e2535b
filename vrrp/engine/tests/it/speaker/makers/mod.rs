//! Routers of several makers, all with the same neighbours: addresses of the speaker, one for each kind of session.

mod bird;
mod exabgp;
mod frr;
mod gobgp;
mod openbgpd;

use std::collections::BTreeSet;

pub(crate) use bird::Bird;
pub(crate) use exabgp::ExaBgp;
pub(crate) use gobgp::{GoBgp, GoBgp4};
pub(crate) use openbgpd::OpenBgpd;

use crate::interop::process::Daemon;
use crate::lab::Host;

/// AS of the speaker.
pub(crate) const OWN: u32 = 64512;
/// AS of the speaker that takes four bytes.
pub(crate) const LARGE: u32 = 4_200_000_001;
/// AS that stands for one of four bytes where there is room for two.
pub(crate) const AS_TRANS: u32 = 23456;
/// AS of the routers.
pub(crate) const ROUTER: u32 = 64500;

/// Property of a session that both sides configure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Plain,
    /// TCP MD5 with [`PASSWORD`].
    Password,
    /// GTSM for a neighbour on the link.
    TtlSecurity,
    /// A router between.
    Multihop,
    /// IPv6 next hops of IPv4 routes.
    ExtendedNextHop,
    /// The router reads AS numbers of two bytes alone.
    TwoOctets,
}

pub(crate) const PASSWORD: &str = "right";

/// Milliseconds between packets that the routers send, and between those that they take; packets that may be missing.
pub(crate) const BFD_TIMERS: (u64, u64, u8) = (300, 600, 10);

/// The speaker as a router knows it in one of its sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbour {
    /// Address of the speaker.
    pub(crate) own: &'static str,
    /// Address of the router.
    pub(crate) router: &'static str,
    /// AS that the router expects.
    pub(crate) asn: u32,
    pub(crate) kind: Kind,
    /// Hold time that the router offers.
    pub(crate) hold_time: u16,
}

const fn neighbour(own: &'static str, asn: u32, kind: Kind) -> Neighbour {
    Neighbour { own, router: "192.0.2.2", asn, kind, hold_time: 90 }
}

pub(crate) const EXTERNAL: Neighbour = neighbour("192.0.2.1", OWN, Kind::Plain);
pub(crate) const INTERNAL: Neighbour = neighbour("192.0.2.11", ROUTER, Kind::Plain);
pub(crate) const SIGNED: Neighbour = neighbour("192.0.2.12", OWN, Kind::Password);
pub(crate) const NEAR: Neighbour = neighbour("192.0.2.13", OWN, Kind::TtlSecurity);
/// The router refuses the speaker's AS.
pub(crate) const REFUSED: Neighbour = neighbour("192.0.2.14", OWN + 1, Kind::Plain);
/// The speaker refuses the router's AS.
pub(crate) const REFUSING: Neighbour = neighbour("192.0.2.15", OWN, Kind::Plain);
pub(crate) const BRIEF: Neighbour = Neighbour { hold_time: 3, ..neighbour("192.0.2.16", OWN, Kind::Plain) };
pub(crate) const OLD: Neighbour = neighbour("192.0.2.17", LARGE, Kind::TwoOctets);
pub(crate) const FAR: Neighbour =
    Neighbour { router: "198.51.100.2", ..neighbour("198.51.100.1", OWN, Kind::Multihop) };
pub(crate) const SIX: Neighbour =
    Neighbour { router: "2001:db8::2", ..neighbour("2001:db8::1", OWN, Kind::ExtendedNextHop) };
pub(crate) const LINK_LOCAL: Neighbour =
    Neighbour { router: "fe80::2", ..neighbour("fe80::1", OWN, Kind::Plain) };

/// All of them. A maker leaves out what it cannot be: [`Maker::CANNOT`].
const NEIGHBOURS: [Neighbour; 11] =
    [EXTERNAL, INTERNAL, SIGNED, NEAR, REFUSED, REFUSING, BRIEF, OLD, FAR, SIX, LINK_LOCAL];

impl Neighbour {
    pub(crate) fn is_internal(&self) -> bool {
        self.asn == ROUTER
    }

    pub(crate) fn is_ipv6(&self) -> bool {
        self.own.contains(':')
    }

    pub(crate) fn is_link_local(&self) -> bool {
        self.own.starts_with("fe80")
    }
}

/// A router of a maker, in a namespace of the LAN with all its neighbours.
pub(crate) trait Maker: Sized {
    /// Its program.
    const PROGRAM: &str;
    /// Addresses of the neighbours that this maker cannot have.
    const CANNOT: &[&str] = &[];
    /// True if it takes IPv4 routes with an IPv6 next hop.
    const EXTENDED_NEXT_HOP: bool;
    /// Part of what it reports when the speaker has left.
    const LEFT: &str = "windlass stops";
    /// Addresses of the neighbours with which it has BFD, by [`BFD_TIMERS`].
    const BFD: &[&str] = &[];
    /// Parts of what it prints, without spaces, about the external and the internal route of the test.
    const PRINTED: [&[&str]; 2];
    /// The same while both are degraded.
    const DEGRADED: [&[&str]; 2];
    /// The same about the AS path from a neighbour whose AS takes four bytes, read by two.
    const TWO_OCTETS: &str = "";

    /// Starts it; it waits for connections of its neighbours.
    fn start(host: &Host) -> Self;
    /// The process that has the sessions.
    fn daemon(&self) -> &Daemon;
    /// Prefixes of both families in its table.
    fn prefixes(&self) -> BTreeSet<String>;
    /// All that it prints about a route.
    fn route(&self, prefix: &str) -> String;
    /// Makes it ask the neighbour for all routes again; returns false if it cannot.
    fn refresh(&self, neighbour: &str) -> bool;
    /// Makes it shut the session down with this text; returns false if it cannot.
    fn shut_down(&self, neighbour: &str, text: &str) -> bool;
    /// All that it reports about the end of a session.
    fn ending(&self, neighbour: &str) -> String;

    /// The neighbours that this maker can have.
    fn neighbours() -> impl Iterator<Item = Neighbour> {
        NEIGHBOURS.into_iter().filter(|neighbour| !Self::CANNOT.contains(&neighbour.own))
    }
}

/// The lines of a neighbour's settings, for each neighbour of a maker.
fn configuration<M: Maker>(lines: impl Fn(&Neighbour) -> String) -> String {
    M::neighbours().map(|neighbour| lines(&neighbour)).collect()
}

/// First words of lines that are prefixes.
fn first_words(printed: &str) -> BTreeSet<String> {
    let words = printed.lines().filter_map(|line| line.split_whitespace().next());
    words.filter(|word| word.contains('/')).map(str::to_owned).collect()
}
