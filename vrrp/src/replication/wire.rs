//! Messages as bytes: `docs/dev/replication.md` has the format.

use super::decode_error::DecodeError;
use super::entry::Entry;
use super::message::{Alive, Body, Data, Epoch, Message, Missing, Reason};
use super::reader::Reader;
use super::table::Summary;
use super::{MAGIC, VERSION};

/// Most bytes of UDP payload, its trailer included: with IPv6 and UDP headers it fits an MTU of 1,448, and is never fragmented.
pub const MAX_DATAGRAM: usize = 1400;
/// Most bytes of a message: room for the trailer is always left.
pub const MAX_MESSAGE: usize = MAX_DATAGRAM - crate::auth::SEAL_LENGTH;
pub(super) const HEADER: usize = 40;
/// Most bytes of entries: a snapshot's part also has its number.
pub(super) const ROOM: usize = MAX_MESSAGE - HEADER - 4;
/// Most ranges of missing datagrams in one acknowledgement.
pub(super) const MAX_MISSING: usize = 64;

/// Offset of the flags.
pub(super) const FLAGS_AT: usize = 6;
const BEHIND: u8 = 0x01;
const ATTACHED: u8 = 0x02;
const SUMMARY: u8 = 0x04;
const FULL: u8 = 0x08;
/// A trailer follows the message.
pub(super) const SIGNED: u8 = 0x80;

const UPDATE: u8 = 1;
const SNAPSHOT_BEGIN: u8 = 2;
const SNAPSHOT_PART: u8 = 3;
const SNAPSHOT_END: u8 = 4;
const ALIVE: u8 = 5;
const ACKNOWLEDGE: u8 = 6;
const RESYNC: u8 = 7;

/// A message that no datagram can carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the message has {entries} entries and {length} bytes: 255 and {MAX_MESSAGE} at most, divide it")]
pub struct TooLong {
    /// Number of its entries.
    pub entries: usize,
    /// Its length in bytes.
    pub length: usize,
}

fn flag(on: bool, flag: u8) -> u8 {
    if on { flag } else { 0 }
}

/// Checks length and first bytes: a datagram of this version.
pub(super) fn check_head(bytes: &[u8]) -> Result<(), DecodeError> {
    if bytes.len() > MAX_DATAGRAM {
        return Err(DecodeError::TooLong { length: bytes.len(), limit: MAX_DATAGRAM });
    }
    let mut reader = Reader::new(bytes);
    let magic = reader.bytes()?;
    if magic != *MAGIC {
        return Err(DecodeError::Magic(u32::from_be_bytes(magic)));
    }
    match reader.byte()? {
        VERSION => Ok(()),
        other => Err(DecodeError::Version(other)),
    }
}

impl Message {
    /// Its bytes, without a trailer. Addresses of a connection are to be of one family.
    pub fn encode(&self) -> Result<Vec<u8>, TooLong> {
        let (bytes, entries) = self.write();
        if entries > usize::from(u8::MAX) || bytes.len() > MAX_MESSAGE {
            return Err(TooLong { entries, length: bytes.len() });
        }
        Ok(bytes)
    }

    /// Its bytes and the number of its entries, whether or not they fit.
    pub(super) fn write(&self) -> (Vec<u8>, usize) {
        let (kind, flags, count, number) = match &self.body {
            Body::Data { sequence, behind, data } => {
                let (kind, count) = match data {
                    Data::Update(entries) => (UPDATE, entries.len()),
                    Data::SnapshotBegin(_) => (SNAPSHOT_BEGIN, 0),
                    Data::SnapshotPart(_, connections) => (SNAPSHOT_PART, connections.len()),
                    Data::SnapshotEnd(_) => (SNAPSHOT_END, 0),
                };
                (kind, flag(*behind, BEHIND), count, *sequence)
            }
            Body::Alive(alive) => {
                let flags = flag(alive.behind, BEHIND)
                    | flag(alive.attached, ATTACHED)
                    | flag(alive.summary.is_some(), SUMMARY);
                (ALIVE, flags, 0, alive.last)
            }
            Body::Acknowledge { up_to, missing, full } => {
                (ACKNOWLEDGE, flag(*full, FULL), missing.len(), *up_to)
            }
            Body::Resync { ticket, .. } => (RESYNC, 0, 0, *ticket),
        };
        let mut bytes = Vec::with_capacity(MAX_DATAGRAM);
        bytes.extend(MAGIC);
        bytes.extend([VERSION, kind, flags, u8::try_from(count).unwrap_or(u8::MAX)]);
        for number in [self.epoch.start, self.epoch.random, self.challenge, number] {
            bytes.extend(number.to_be_bytes());
        }
        match &self.body {
            Body::Data { data, .. } => match data {
                Data::Update(entries) => entries.iter().for_each(|entry| entry.write(&mut bytes)),
                Data::SnapshotBegin(snapshot) | Data::SnapshotEnd(snapshot) => {
                    bytes.extend(snapshot.to_be_bytes());
                }
                Data::SnapshotPart(snapshot, connections) => {
                    bytes.extend(snapshot.to_be_bytes());
                    for connection in connections {
                        Entry::Put(*connection).write(&mut bytes);
                    }
                }
            },
            Body::Alive(alive) => {
                let Summary { count, digest } = alive.summary.unwrap_or_default();
                bytes.extend(alive.beat.to_be_bytes());
                bytes.extend(alive.ticket.to_be_bytes());
                bytes.extend(count.to_be_bytes());
                bytes.extend(digest.to_be_bytes());
            }
            Body::Acknowledge { missing, .. } => {
                for Missing { first, last } in missing {
                    bytes.extend(first.to_be_bytes());
                    bytes.extend(last.to_be_bytes());
                }
            }
            Body::Resync { reason, .. } => {
                bytes.push(u8::try_from(reason.index()).map_or(0, |index| index.saturating_add(1)));
            }
        }
        (bytes, count)
    }

    /// Reads a message, without its trailer; the flag that announces one is passed over.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        check_head(bytes)?;
        let mut reader = Reader::new(bytes);
        let [.., kind, flags, count] = reader.bytes::<8>()?;
        let flags = flags & !SIGNED;
        let epoch = Epoch { start: reader.long()?, random: reader.long()? };
        let challenge = reader.long()?;
        let number = reader.long()?;
        let allowed = match kind {
            UPDATE | SNAPSHOT_BEGIN | SNAPSHOT_PART | SNAPSHOT_END => BEHIND,
            ALIVE => BEHIND | ATTACHED | SUMMARY,
            ACKNOWLEDGE => FULL,
            RESYNC => 0,
            _ => return Err(DecodeError::Kind(kind)),
        };
        if flags & !allowed != 0 {
            return Err(DecodeError::Flags(flags));
        }
        let body = match kind {
            ALIVE => Body::Alive(read_alive(&mut reader, flags, number)?),
            ACKNOWLEDGE => Body::Acknowledge {
                up_to: number,
                missing: read_missing(&mut reader, count, number)?,
                full: flags & FULL != 0,
            },
            RESYNC => {
                let reason = reader.byte()?;
                let known = usize::from(reason).checked_sub(1).and_then(|index| Reason::ALL.get(index));
                Body::Resync { ticket: number, reason: *known.ok_or(DecodeError::Reason(reason))? }
            }
            _ if number == 0 => return Err(DecodeError::Sequence),
            _ => {
                let data = read_data(&mut reader, kind, count)?;
                Body::Data { sequence: number, behind: flags & BEHIND != 0, data }
            }
        };
        let counts = matches!(kind, UPDATE | SNAPSHOT_PART | ACKNOWLEDGE);
        if count != 0 && !counts {
            return Err(DecodeError::Count(count));
        }
        match reader.left() {
            0 => Ok(Self { epoch, challenge, body }),
            left => Err(DecodeError::Trailing(left)),
        }
    }
}

fn read_data(reader: &mut Reader<'_>, kind: u8, count: u8) -> Result<Data, DecodeError> {
    match kind {
        UPDATE => (0..count).map(|_| Entry::read(reader)).collect::<Result<_, _>>().map(Data::Update),
        SNAPSHOT_BEGIN => reader.word().map(Data::SnapshotBegin),
        SNAPSHOT_END => reader.word().map(Data::SnapshotEnd),
        _ => {
            let snapshot = reader.word()?;
            let connections = (0..count).map(|_| match Entry::read(reader)? {
                Entry::Put(connection) => Ok(connection),
                Entry::Ended(_) => Err(DecodeError::EndedInSnapshot),
            });
            Ok(Data::SnapshotPart(snapshot, connections.collect::<Result<_, _>>()?))
        }
    }
}

fn read_alive(reader: &mut Reader<'_>, flags: u8, last: u64) -> Result<Alive, DecodeError> {
    let (beat, ticket) = (reader.long()?, reader.long()?);
    let summary = Summary { count: reader.word()?, digest: reader.long()? };
    let summary = match flags & SUMMARY {
        0 if summary != Summary::default() => return Err(DecodeError::Summary),
        0 => None,
        _ => Some(summary),
    };
    let (attached, behind) = (flags & ATTACHED != 0, flags & BEHIND != 0);
    Ok(Alive { beat, ticket, attached, last, behind, summary })
}

/// Ranges that begin behind `up_to`, each behind the one before it.
fn read_missing(reader: &mut Reader<'_>, count: u8, up_to: u64) -> Result<Vec<Missing>, DecodeError> {
    let mut before = up_to;
    let mut ranges = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let (first, last) = (reader.long()?, reader.long()?);
        if first <= before || last < first {
            return Err(DecodeError::Missing { first, last });
        }
        before = last;
        ranges.push(Missing { first, last });
    }
    Ok(ranges)
}
