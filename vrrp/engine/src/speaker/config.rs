//! Settings of the BGP speaker.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use windlass_bgp::session::{Config, NextHops};
use windlass_bgp::wire::Attributes;
use windlass_bgp::{Family, Prefix};
use windlass_kernel::tcp::Md5Key;

use crate::bfd::BfdConfig;

/// Routes that a peer is to have.
pub type Routes = BTreeMap<Prefix, Arc<Attributes>>;

/// Peers of the BGP speaker and their routes, by the name of the peer: [`Engine::speak`](crate::Engine::speak).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user over its default")]
pub struct Speaker {
    /// The peers.
    pub peers: BTreeMap<String, PeerConfig>,
    /// The routes of each. A peer without an entry gets none.
    pub routes: BTreeMap<String, Arc<Routes>>,
}

/// Location of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "made by the user")]
pub enum Endpoint {
    /// One address.
    Address {
        /// The address.
        address: IpAddr,
        /// Interface by which it is reached; required with a link-local address, otherwise by route.
        interface: Option<String>,
    },
    /// Each gateway of the host's default routes of this family.
    Gateway(Family),
}

/// Settings of a peer. A change of them, except those of BFD, ends its sessions in order, and new ones are opened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the user over `PeerConfig::new`")]
pub struct PeerConfig {
    /// Settings of the session.
    pub session: Config,
    /// Location of the peer.
    pub endpoint: Endpoint,
    /// TCP port of the peer. Default: 179.
    pub port: u16,
    /// Own address; without it the session stays down. Default: by route.
    pub source: Option<IpAddr>,
    /// Key of TCP MD5 signatures (RFC 2385). Default: none.
    pub password: Option<Md5Key>,
    /// Smallest TTL or hop limit of the peer's packets (RFC 5082): 255 on the link, 256 minus the number of hops beyond. What is sent has
    /// 255 in any case. Default: any.
    pub minimum_ttl: Option<u8>,
    /// Next hops instead of those that follow from the connection's own address. Default: none.
    pub next_hops: NextHops,
    /// BFD, which ends a session with a dead peer immediately. It begins 1 s after the session is Established. Default: none.
    pub bfd: Option<BfdConfig>,
}

impl PeerConfig {
    /// A peer with the defaults.
    pub fn new(session: Config, endpoint: Endpoint) -> Self {
        Self {
            session,
            endpoint,
            port: 179,
            source: None,
            password: None,
            minimum_ttl: None,
            next_hops: NextHops { ipv4: None, ipv6: None },
            bfd: None,
        }
    }
}
