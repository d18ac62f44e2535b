//! Settings of `windlass vip`: a YAML file, or flags, read into one validated [`Settings`]. Pure but for [`read`].
//!
//! | file | concept |
//! |---|---|
//! | `given` | a value with the place where it was given, and what is wrong with it there |
//! | `draft` | the fields as they are written, of whatever value |
//! | `file` | YAML text into a draft |
//! | `values` | the values that several fields have: numbers, addresses, paths |
//! | `target` | hosts, ports and URLs that checks ask |
//! | `vips`, `checks`, `balance`, `protocols`, `bgp` | a draft into settings, or the first mistake in it |

mod balance;
mod bgp;
mod checks;
mod draft;
mod file;
mod given;
mod protocols;
mod target;
mod values;
mod vips;

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use windlass_ccm::files::WatchedFile;
use windlass_engine::bgp::session::{ExpectedAs, NextHops};
use windlass_engine::bgp::wire::Attributes;
use windlass_engine::bgp::{Asn, HoldTime, RouterId};
use windlass_engine::{BfdConfig, Endpoint};
use windlass_vrrp::{Interval, Vrid};

pub(super) use self::draft::{
    BalanceDraft, BfdDraft, BgpDraft, CheckDraft, CommandDraft, Draft, GrpcDraft, HttpDraft, PeerDraft,
    TcpDraft, VipDraft,
};
pub(crate) use self::given::SettingsError;
pub(super) use self::given::{Given, Text};
use crate::checks::{Question, Target};

#[cfg(test)]
mod tests;

/// Settings of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The folder of the keys that sign adverts, an absolute path; `None`: adverts are not signed.
    pub(crate) keys_dir: Option<PathBuf>,
    /// BGP routers; present if an address is announced to them.
    pub(crate) bgp: Option<BgpSettings>,
    /// At least one, each of another address.
    pub(crate) vips: Vec<VipSettings>,
}

/// One virtual IP.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting by itself")]
pub(crate) struct VipSettings {
    /// A unicast address that is neither loopback nor an IPv4-mapped one.
    pub(crate) address: IpAddr,
    /// True if nodes elect the one that answers for it on the LAN.
    pub(crate) vrrp: bool,
    /// Attributes of its route; `None`: it is not announced to BGP routers.
    pub(crate) route: Option<Attributes>,
    /// `None`: the interface whose network has the address, or, with BGP alone, that of the default route.
    pub(crate) interface: Option<String>,
    /// The TCP ports that are served at the address, at least one; exactly one where connections are balanced.
    pub(crate) ports: BTreeSet<u16>,
    /// `None`: chosen.
    pub(crate) vrid: Option<Vrid>,
    /// 101 to 200; `None`: the default, 200.
    pub(crate) priority: Option<u8>,
    /// True if a node of higher priority takes over the address from one that is fit.
    pub(crate) preempt: bool,
    /// Time between two adverts.
    pub(crate) advert_interval: Interval,
    /// The nodes that adverts are sent to by unicast, of the address' family. This node's own address may be among them, so that
    /// all nodes can have one file.
    pub(crate) peers: BTreeSet<IpAddr>,
    /// True if adverts are sent by multicast; always true without peers.
    pub(crate) multicast: bool,
    /// True if the address is added to the interface.
    pub(crate) bind: bool,
    /// Checks that have to pass for this node to be fit.
    pub(crate) checks: Vec<CheckSettings>,
    /// Backends of connections; `None`: this node itself.
    pub(crate) balance: Option<BalanceSettings>,
}

/// One check of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckSettings {
    pub(crate) kind: CheckKind,
    pub(crate) rhythm: Rhythm,
    /// Priority that is lost while it fails, 1 to 200.
    pub(crate) weight: u8,
}

/// Timing of a check, and the number of results that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rhythm {
    /// Interval from the start of one attempt to that of the next.
    pub(crate) interval: Duration,
    /// Time limit of an attempt; never longer than the interval, so that each interval has one result.
    pub(crate) timeout: Duration,
    /// Number of successes in a row that end a failure; at least 1.
    pub(crate) rise: u32,
    /// Number of failures in a row that make a check fail; at least 1.
    pub(crate) fall: u32,
}

/// Kind of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CheckKind {
    /// A server is asked something.
    Server {
        /// Address of the server.
        target: Target,
        /// Question to the server.
        question: Question,
    },
    /// A program is run and has to end with exit code 0: its absolute path, and its arguments.
    Command(Vec<String>),
}

/// The own autonomous system and its BGP peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BgpSettings {
    pub(crate) local_as: Asn,
    /// `None`: it follows from the node's address.
    pub(crate) router_id: Option<RouterId>,
    /// At least one, each at another endpoint.
    pub(crate) peers: Vec<PeerSettings>,
}

/// A BGP peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerSettings {
    pub(crate) endpoint: Endpoint,
    pub(crate) expected_as: ExpectedAs,
    pub(crate) port: u16,
    /// Own address of the session; `None`: by route.
    pub(crate) source: Option<IpAddr>,
    pub(crate) hold_time: HoldTime,
    /// `None`: a third of the hold time.
    pub(crate) keepalive: Option<Duration>,
    /// File of the TCP MD5 password, an absolute path.
    pub(crate) password_file: Option<PathBuf>,
    /// Smallest TTL of received packets.
    pub(crate) minimum_ttl: Option<u8>,
    pub(crate) bfd: Option<BfdConfig>,
    pub(crate) next_hops: NextHops,
}

impl Settings {
    /// Files of the passwords of BGP peers, each once.
    pub(crate) fn password_files(&self) -> impl Iterator<Item = &Path> {
        let peers = self.bgp.iter().flat_map(|bgp| &bgp.peers);
        let files: BTreeSet<&Path> = peers.filter_map(|peer| peer.password_file.as_deref()).collect();
        files.into_iter()
    }
}

impl PeerSettings {
    /// Name of the peer in metrics and messages.
    pub(crate) fn name(&self) -> String {
        match &self.endpoint {
            Endpoint::Address { address, interface: None } => address.to_string(),
            Endpoint::Address { address, interface: Some(interface) } => format!("{address}%{interface}"),
            Endpoint::Gateway(family) => format!("{family} gateway"),
        }
    }
}

/// Balancing of connections to a virtual IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BalanceSettings {
    /// At least one, of the virtual IP's family and none of them a virtual IP.
    pub(crate) backends: BTreeSet<SocketAddr>,
    pub(crate) source: SourceAddress,
    /// Question to each of them.
    pub(crate) question: Question,
    pub(crate) rhythm: Rhythm,
}

/// Source address that backends see of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SourceAddress {
    /// The address of the Active.
    #[default]
    Masquerade,
    /// The client's own.
    Keep,
}

/// Reads the settings in a file.
///
/// # Errors
/// The file cannot be read, or the first mistake in it.
pub(crate) fn read(path: &Path) -> Result<Settings, SettingsError> {
    let file = WatchedFile::open(path);
    let content = file.content().map_err(|error| SettingsError::unreadable(&error))?;
    parse(content, &path.display().to_string())
}

/// The settings in a YAML text of the file `name`.
///
/// # Errors
/// The first mistake, with file, line, column, field, value, reason and remedy.
pub(crate) fn parse(text: &[u8], name: &str) -> Result<Settings, SettingsError> {
    vips::settings(&file::draft(text, name)?, given::Source::File(name))
}

/// Returns the settings of flags.
///
/// # Errors
/// The first mistake, with flag, value, reason and remedy.
pub(super) fn of_flags(draft: &Draft) -> Result<Settings, SettingsError> {
    vips::settings(draft, given::Source::Flags)
}

impl fmt::Display for CheckKind {
    /// As `--check` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { target, question } => question.url(target).fmt(f),
            Self::Command(command) => write!(f, "exec:{}", command.join(" ")),
        }
    }
}
