//! The nodes that serve an address together, and the node that serves a client. Pure.

use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use windlass_api::{LOTS, PortProtocol, SharedBy, SharedLoad, VirtualIP};
use windlass_engine::{SharedBy as Hashed, lot};

/// Sharing of an address.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SharingStory {
    /// Parts of a packet that determine its lot; absent: the address has no lots.
    pub(super) by: Option<SharedBy>,
    /// Nodes that have lots, the one with most first, then nodes that had some.
    pub(super) servers: Vec<Server>,
    /// Its condition LoadShared; absent: no agent has reported yet.
    pub(super) condition: Option<Condition>,
}

/// A node that serves lots, or served them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Server {
    pub(super) node: String,
    /// Number of its lots.
    pub(super) lots: usize,
    /// Share of all lots, rounded.
    pub(super) percent: usize,
    /// Lots that other nodes serve, and of which it may still have connections.
    pub(super) former_lots: Vec<usize>,
}

impl SharingStory {
    /// Returns the sharing of a virtual IP; `None` if it is not shared and should not be.
    pub(super) fn of(vip: &VirtualIP) -> Option<Self> {
        let load = vip.spec.load_sharing.as_ref();
        let condition = vip.load_shared().cloned();
        (load.is_some() || condition.is_some()).then(|| Self {
            by: load.map(|load| load.by),
            servers: load.map(servers).unwrap_or_default(),
            condition,
        })
    }
}

/// An invalid table has none: the condition names what is wrong with it.
fn servers(load: &SharedLoad) -> Vec<Server> {
    let Ok(table) = load.table() else { return Vec::new() };
    let numbers = table.numbers();
    let server = |(index, node): (u8, &windlass_api::SharingNode)| {
        let lots = numbers.get(&index).copied().unwrap_or(0);
        let had = |lot: &usize| table.former.iter().any(|row| row[*lot] == Some(index));
        Server {
            node: node.name.clone(),
            lots,
            percent: (lots * 100 + LOTS / 2) / LOTS,
            former_lots: (0..LOTS).filter(had).collect(),
        }
    };
    let mut servers: Vec<Server> = (0..).zip(&load.nodes).map(server).collect();
    servers.sort_by_key(|server| Reverse(server.lots));
    servers
}

/// A client, as packets name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::inspect) struct Client {
    address: IpAddr,
    port: Option<u16>,
}

/// Text that is no [`Client`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address with a port: write 198.51.100.7:40000 or [2001:db8::7]:40000")]
pub(in crate::inspect) struct InvalidClient;

impl FromStr for Client {
    type Err = InvalidClient;

    fn from_str(text: &str) -> Result<Self, InvalidClient> {
        let with_port =
            text.parse().map(|one: SocketAddr| Self { address: one.ip(), port: Some(one.port()) });
        let alone = || text.parse().map(|address| Self { address, port: None });
        with_port.or_else(|_| alone()).map_err(|_| InvalidClient)
    }
}

/// The node that serves a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClientStory {
    /// Lot of its packets; absent: one node gets all packets, or the client's port is needed and was not given.
    pub(super) lot: Option<u8>,
    /// The node; absent: the client's port is needed and was not given.
    pub(super) node: Option<String>,
    /// Former servers of the lot, the latest first: connections that began there stay there.
    pub(super) former: Vec<String>,
    /// The node of associations of SCTP, if a Service has a port of it: they have no lots.
    pub(super) sctp: Option<String>,
}

impl ClientStory {
    /// Returns the node that serves this client; `None` if the client is of another family, or no node announces the address.
    pub(super) fn of(vip: &VirtualIP, client: Client) -> Option<Self> {
        if client.address.is_ipv4() != vip.spec.address.is_ipv4() || !vip.is_announced() {
            return None;
        }
        let load = vip.spec.load_sharing.as_ref().filter(|_| vip.unshared().is_none());
        let Some((load, table)) = load.and_then(|load| Some((load, load.table().ok()?))) else {
            let node = Some(vip.active_node()?.to_owned());
            return Some(Self { lot: None, node, former: Vec::new(), sctp: None });
        };
        let name = |index: u8| load.nodes.get(usize::from(index)).map(|node| node.name.clone());
        let lot = match load.by {
            SharedBy::Connection => client.port.map(|port| lot(client.address, port, Hashed::Connection)),
            SharedBy::Client => Some(lot(client.address, 0, Hashed::Client)),
        };
        let at = lot.map(usize::from);
        let former = table.former.iter().filter_map(|row| row[at?]);
        let has_sctp = vip.spec.ports.iter().any(|port| port.protocol == PortProtocol::Sctp);
        Some(Self {
            lot,
            node: at.and_then(|at| name(table.lots[at])),
            former: former.filter_map(name).collect(),
            sctp: name(table.first_server()).filter(|_| has_sctp),
        })
    }
}
