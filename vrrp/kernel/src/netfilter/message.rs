//! Messages to and from nf_tables and connection tracking, and batches of changes that nf_tables takes wholly or not at all.
//!
//! Layout: `linux/netlink.h`, `linux/netfilter/nfnetlink.h`, `linux/netfilter/nf_tables.h`,
//! `linux/netfilter/nfnetlink_conntrack.h`.

use std::fmt;
use std::io;

use super::attributes::Attributes;

#[cfg(test)]
mod tests;

const HEADER: usize = 16;
/// Length of nfgenmsg, between header and attributes.
const FAMILY_HEADER: usize = 4;
const SUBSYSTEM: u16 = 10;
/// Subsystem of connection tracking.
const CONNECTIONS: u16 = 1;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const ERROR: u16 = 2;
const DONE: u16 = 3;

const FLAG_REQUEST: u16 = 0x1;
const FLAG_ACKNOWLEDGE: u16 = 0x4;
const FLAG_DUMP: u16 = 0x300;
const FLAG_DUMP_INTERRUPTED: u16 = 0x10;
const FLAG_EXCLUSIVE: u16 = 0x200;
const FLAG_CREATE: u16 = 0x400;
const FLAG_APPEND: u16 = 0x800;

const FAMILY_ANY: u8 = 0;

/// Family of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::exhaustive_enums, reason = "the families in use")]
pub enum TableFamily {
    /// IPv4 and IPv6 packets, as the IP stack sees them.
    #[default]
    Inet = 1,
    /// Frames of single interfaces, before the IP stack.
    Netdev = 5,
}

impl fmt::Display for TableFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inet => "inet",
            Self::Netdev => "netdev",
        })
    }
}

/// Operation that a message requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Creates a table.
    NewTable,
    /// Returns a table.
    GetTable,
    /// Deletes a table with all that is in it.
    DeleteTable,
    /// Creates a chain.
    NewChain,
    /// Deletes a chain with its rules.
    DeleteChain,
    /// Appends a rule to a chain.
    NewRule,
    /// Returns one chain of a table of this family, as the kernel numbers it.
    GetChain(u8),
    /// Lists rules.
    GetRules,
    /// Lists rules of a table of this family, as the kernel numbers it.
    GetRulesOf(u8),
    /// Creates a set.
    NewSet,
    /// Adds elements to a set.
    NewElements,
    /// Lists a set's elements. While the kernel makes room for more in the set, some may be missing from the list.
    GetElements,
    /// Removes elements from a set.
    DeleteElements,
    /// Returns the number of changes of the ruleset.
    GetGeneration,
    /// Lists tracked connections of this family, as the kernel numbers it.
    GetConnections(u8),
    /// Returns a tracked connection of this family.
    GetConnection(u8),
    /// Deletes a tracked connection of this family.
    DeleteConnection(u8),
    /// Begins to track a connection of this family that is not tracked yet.
    InsertConnection(u8),
    /// Changes a tracked connection of this family.
    UpdateConnection(u8),
    /// Returns the number of tracked connections, and its maximum.
    GetConnectionUsage,
}

impl Operation {
    fn flags(self) -> u16 {
        match self {
            Self::NewTable | Self::NewChain | Self::NewSet | Self::NewElements => FLAG_REQUEST | FLAG_CREATE,
            Self::NewRule => FLAG_REQUEST | FLAG_CREATE | FLAG_APPEND,
            Self::GetRules | Self::GetRulesOf(_) | Self::GetElements | Self::GetConnections(_) => {
                FLAG_REQUEST | FLAG_DUMP
            }
            Self::GetTable
            | Self::GetChain(_)
            | Self::GetGeneration
            | Self::GetConnection(_)
            | Self::DeleteConnection(_)
            | Self::UpdateConnection(_)
            | Self::GetConnectionUsage => FLAG_REQUEST | FLAG_ACKNOWLEDGE,
            Self::InsertConnection(_) => FLAG_REQUEST | FLAG_ACKNOWLEDGE | FLAG_CREATE | FLAG_EXCLUSIVE,
            Self::DeleteTable | Self::DeleteChain | Self::DeleteElements => FLAG_REQUEST,
        }
    }

    fn kind(self) -> u16 {
        let number = match self {
            Self::NewTable => 0,
            Self::GetTable => 1,
            Self::DeleteTable => 2,
            Self::NewChain => 3,
            Self::GetChain(_) => 4,
            Self::DeleteChain => 5,
            Self::NewRule => 6,
            Self::GetRules | Self::GetRulesOf(_) => 7,
            Self::NewSet => 9,
            Self::NewElements => 12,
            Self::GetElements => 13,
            Self::DeleteElements => 14,
            Self::GetGeneration => 16,
            Self::GetConnections(_) | Self::GetConnection(_) => return CONNECTIONS << 8 | 1,
            Self::DeleteConnection(_) => return CONNECTIONS << 8 | 2,
            Self::InsertConnection(_) | Self::UpdateConnection(_) => return CONNECTIONS << 8,
            Self::GetConnectionUsage => return CONNECTIONS << 8 | 5,
        };
        SUBSYSTEM << 8 | number
    }

    /// Family of the message, where tables are of the family `tables`.
    fn family(self, tables: TableFamily) -> u8 {
        match self {
            Self::GetChain(family)
            | Self::GetRulesOf(family)
            | Self::GetConnections(family)
            | Self::GetConnection(family)
            | Self::DeleteConnection(family)
            | Self::InsertConnection(family)
            | Self::UpdateConnection(family) => family,
            _ => tables as u8,
        }
    }
}

/// A question.
pub(crate) fn question(
    operation: Operation,
    tables: TableFamily,
    attributes: &Attributes,
    sequence: u32,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let place = (operation.family(tables), 0);
    write(&mut bytes, operation.kind(), operation.flags(), sequence, place, attributes);
    bytes
}

/// Encodes requests and changes that are identified by their index. The kernel answers each but the last only with an error or the
/// requested object; it acknowledges the last, which marks the end of the answers.
pub(crate) fn questions(requests: &[(Operation, Attributes)], tables: TableFamily, sequence: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut next = sequence;
    for (at, (operation, attributes)) in requests.iter().enumerate() {
        let acknowledge = if at == requests.len().saturating_sub(1) { FLAG_ACKNOWLEDGE } else { 0 };
        let flags = operation.flags() & !FLAG_ACKNOWLEDGE | acknowledge;
        write(&mut bytes, operation.kind(), flags, next, (operation.family(tables), 0), attributes);
        next = next.wrapping_add(1);
    }
    bytes
}

/// Changes that happen together or not at all.
#[derive(Default, Debug)]
pub struct Batch {
    steps: Vec<(String, Operation, Attributes)>,
}

impl Batch {
    /// Adds a change; `what` describes it in an error message, as in "cannot `what`".
    pub fn add(&mut self, what: impl Into<String>, operation: Operation, attributes: Attributes) {
        self.steps.push((what.into(), operation, attributes));
    }

    /// Adds the changes of another batch.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.steps.append(&mut other.steps);
    }

    /// Returns true if it makes or deletes rules, or chains with them.
    pub(crate) fn changes_rules(&self) -> bool {
        let is_of_rules = |operation| matches!(operation, Operation::DeleteChain | Operation::NewRule);
        self.changes().any(|(operation, _)| is_of_rules(operation))
    }

    /// Returns true if it has no changes.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The changes, in order.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (Operation, &Attributes)> {
        self.steps.iter().map(|(_, operation, attributes)| (*operation, attributes))
    }

    /// Returns the number of sequence numbers that [`Self::encode`] uses.
    pub fn messages(&self) -> usize {
        self.steps.len().saturating_add(2)
    }

    /// Encodes the batch for a table of this family. The last change is acknowledged, which marks the end of the answers.
    pub fn encode(&self, tables: TableFamily, sequence: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut next = sequence;
        let mut put = |kind, flags, place, attributes: &Attributes| {
            write(&mut bytes, kind, flags, next, place, attributes);
            next = next.wrapping_add(1);
        };
        put(BATCH_BEGIN, FLAG_REQUEST, (FAMILY_ANY, SUBSYSTEM), &Attributes::new());
        for (at, (_, operation, attributes)) in self.steps.iter().enumerate() {
            let last = if at == self.steps.len().saturating_sub(1) { FLAG_ACKNOWLEDGE } else { 0 };
            put(operation.kind(), operation.flags() | last, (tables as u8, 0), attributes);
        }
        put(BATCH_END, FLAG_REQUEST, (FAMILY_ANY, SUBSYSTEM), &Attributes::new());
        bytes
    }

    /// Returns the description of the change at this place in the batch; `None` if the message there is no change.
    pub fn what(&self, message: usize) -> Option<&str> {
        self.steps.get(message.checked_sub(1)?).map(|(what, ..)| what.as_str())
    }

    /// The place of the message that is acknowledged.
    pub fn last(&self) -> usize {
        self.steps.len()
    }
}

fn write(
    bytes: &mut Vec<u8>,
    kind: u16,
    flags: u16,
    sequence: u32,
    (family, resource): (u8, u16),
    attributes: &Attributes,
) {
    let length = const { HEADER + FAMILY_HEADER }.saturating_add(attributes.as_bytes().len());
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(attributes.as_bytes());
}

/// A message of the kernel.
#[derive(Debug)]
pub struct Reply<'a> {
    /// Type of the message, as `subsystem << 8 | number`.
    pub(crate) kind: u16,
    /// Sequence number of the message that it answers.
    pub(crate) sequence: u32,
    /// True if the ruleset changed while the list was made: it may be wrong.
    pub(crate) interrupted: bool,
    /// Content of the message.
    pub content: Content<'a>,
}

/// Content of a message of the kernel.
#[derive(Debug)]
pub enum Content<'a> {
    /// The attributes of an object.
    Object(&'a [u8]),
    /// The end of a list, or of what was asked; with the error if it failed.
    End(Result<(), io::Error>),
}

/// The messages in what was received. Ends at what is malformed.
pub fn replies(mut bytes: &[u8]) -> impl Iterator<Item = Reply<'_>> {
    std::iter::from_fn(move || {
        let (header, _) = bytes.split_first_chunk::<HEADER>()?;
        // `struct nlmsghdr`: length, type, flags, sequence, port.
        let &[l0, l1, l2, l3, t0, t1, f0, f1, s0, s1, s2, s3, ..] = header;
        let kind = u16::from_ne_bytes([t0, t1]);
        let length = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).ok()?;
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let content = match kind {
            ERROR | DONE => {
                // A list's end may come without a code.
                let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                Content::End(match code {
                    0 => Ok(()),
                    code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
                })
            }
            _ => Content::Object(body.get(FAMILY_HEADER..)?),
        };
        Some(Reply {
            kind,
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
            interrupted: u16::from_ne_bytes([f0, f1]) & FLAG_DUMP_INTERRUPTED != 0,
            content,
        })
    })
}
