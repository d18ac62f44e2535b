//! Load sharing: an address that several nodes serve together (`docs/dev/sharing.md`). The controller writes which node serves which part.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Number of lots of an address: parts of its connections, each of which one node serves.
pub const LOTS: usize = 120;
/// Most former servers of a lot.
pub const FORMER_SERVERS: usize = 3;
/// Most nodes of a [`SharedLoad`].
pub const SHARING_NODES: usize = 60;

/// Keys of nodes, in their order.
const KEYS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const NO_NODE: char = '-';

/// Sharing of an address's connections among nodes.
#[derive(
    JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord,
)]
pub enum LoadSharing {
    /// The node that announces the address serves all its connections.
    None,
    /// All nodes with a ready endpoint serve an address of Services with `externalTrafficPolicy: Local`, by their number of endpoints.
    #[default]
    Local,
    /// Likewise, and all nodes that may announce an address of Services with `Cluster` serve it, in equal parts.
    All,
}

/// Parts of a packet that determine its lot.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedBy {
    /// The client's address and port: each connection by itself.
    #[default]
    Connection,
    /// The client's address: all its connections go to one node.
    Client,
}

/// Nodes that serve an address together, and the node of each of its lots.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SharedLoad {
    /// Parts of a packet that determine its lot.
    #[serde(default)]
    pub by: SharedBy,
    /// The nodes that serve lots, or served them.
    #[schemars(length(min = 1, max = 60), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub nodes: Vec<SharingNode>,
    /// The key of each lot's node, which serves its new connections: 120 characters.
    #[schemars(schema_with = "crate::validation::lots")]
    pub lots: String,
    /// Former servers of each lot, which may have connections of it. A column belongs to a lot: its newest former server first, `-` for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::validation::former_lots")]
    pub former_lots: Vec<String>,
}

/// A node that serves lots, or served them.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SharingNode {
    /// The character that stands for it.
    #[schemars(schema_with = "crate::validation::lot_key")]
    pub key: char,
    /// Name of the Node.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its address on the LAN, of the family of the virtual IP; with IPv6 its link-local address.
    #[schemars(schema_with = "crate::validation::ip_address")]
    pub address: IpAddr,
}

/// Nodes of all lots, as indices in [`SharedLoad::nodes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LotTable {
    /// The node that serves each lot.
    pub lots: [u8; LOTS],
    /// Former servers: row `n` has the `n`th of each lot, the newest first.
    pub former: Vec<[Option<u8>; LOTS]>,
}

/// Error in the strings of a [`SharedLoad`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedLoadError {
    /// A string does not have one character for each lot.
    #[error("{field} has {length} characters instead of {LOTS}, one for each lot")]
    Length {
        /// The field of the string.
        field: &'static str,
        /// Number of its characters.
        length: usize,
    },
    /// A character stands for no node.
    #[error("{field}: '{key}' of lot {lot} is the key of no node")]
    UnknownKey {
        /// The field of the string.
        field: &'static str,
        /// Index of the lot.
        lot: usize,
        /// The character.
        key: char,
    },
    /// More nodes than [`SHARING_NODES`].
    #[error("{0} nodes, more than {SHARING_NODES}")]
    TooManyNodes(usize),
    /// More rows than [`FORMER_SERVERS`].
    #[error("formerLots has {0} rows, more than {FORMER_SERVERS}")]
    TooManyRows(usize),
}

impl LotTable {
    /// Returns the number of lots of each node that has some, by its index.
    pub fn numbers(&self) -> BTreeMap<u8, usize> {
        let mut numbers = BTreeMap::new();
        for node in self.lots {
            *numbers.entry(node).or_default() += 1;
        }
        numbers
    }

    /// Returns the index of the node with most lots, of several the first.
    pub fn first_server(&self) -> u8 {
        let numbers = self.numbers().into_iter();
        numbers.max_by_key(|(node, number)| (*number, Reverse(*node))).map_or(0, |(node, _)| node)
    }
}

impl SharedLoad {
    /// Returns the nodes with lots, each with their number.
    pub fn servers(&self) -> Result<Vec<(&SharingNode, usize)>, SharedLoadError> {
        let numbers = self.table()?.numbers().into_iter();
        Ok(numbers.filter_map(|(index, lots)| Some((self.nodes.get(usize::from(index))?, lots))).collect())
    }

    /// Returns the nodes of all lots.
    pub fn table(&self) -> Result<LotTable, SharedLoadError> {
        if self.nodes.len() > SHARING_NODES {
            return Err(SharedLoadError::TooManyNodes(self.nodes.len()));
        }
        if self.former_lots.len() > FORMER_SERVERS {
            return Err(SharedLoadError::TooManyRows(self.former_lots.len()));
        }
        let mut lots = [0; LOTS];
        for (lot, (to, node)) in lots.iter_mut().zip(self.row("lots", &self.lots)?).enumerate() {
            *to = node.ok_or(SharedLoadError::UnknownKey { field: "lots", lot, key: NO_NODE })?;
        }
        let former =
            self.former_lots.iter().map(|row| self.row("formerLots", row)).collect::<Result<_, _>>()?;
        Ok(LotTable { lots, former })
    }

    fn row(&self, field: &'static str, text: &str) -> Result<[Option<u8>; LOTS], SharedLoadError> {
        let length = text.chars().count();
        if length != LOTS {
            return Err(SharedLoadError::Length { field, length });
        }
        let mut row = [None; LOTS];
        for (lot, (to, key)) in row.iter_mut().zip(text.chars()).enumerate() {
            let index =
                self.nodes.iter().position(|node| node.key == key).and_then(|at| u8::try_from(at).ok());
            if index.is_none() && key != NO_NODE {
                return Err(SharedLoadError::UnknownKey { field, lot, key });
            }
            *to = index;
        }
        Ok(row)
    }

    /// Returns the object for a table of these nodes, or `None` if there are more than [`SHARING_NODES`] or an index is of none of them.
    pub fn of(by: SharedBy, nodes: Vec<(String, IpAddr)>, table: &LotTable) -> Option<Self> {
        let key = |index: u8| {
            nodes.get(usize::from(index)).and(KEYS.get(usize::from(index))).copied().map(char::from)
        };
        let former = |node: &Option<u8>| node.map_or(Some(NO_NODE), key);
        let lots = table.lots.iter().map(|node| key(*node)).collect::<Option<_>>()?;
        let former_lots =
            table.former.iter().map(|row| row.iter().map(former).collect()).collect::<Option<_>>()?;
        let nodes: Vec<_> = std::iter::zip(KEYS, nodes)
            .map(|(key, (name, address))| SharingNode { key: char::from(*key), name, address })
            .collect();
        (nodes.len() <= SHARING_NODES).then_some(Self { by, nodes, lots, former_lots })
    }
}
