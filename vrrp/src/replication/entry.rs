//! One entry of a datagram's body.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::connection::{Connection, ConnectionKey, Transport};
use super::decode_error::DecodeError;
use super::reader::Reader;

/// A connection is there.
const PUT: u8 = 0x01;
/// Its addresses are IPv6.
const IPV6: u8 = 0x02;
/// Form of its source: spelled out, ...
const SOURCE: u8 = 0x0c;
const SOURCE_SPELLED_OUT: u8 = 0x00;
/// ... the VIP with a port of its own, ...
const SOURCE_VIP: u8 = 0x04;
/// ... or the client itself.
const SOURCE_CLIENT: u8 = 0x08;

/// State of one connection, as a datagram carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// The connection exists.
    Put(Connection),
    /// It has ended.
    Ended(ConnectionKey),
}

impl Entry {
    /// Most bytes one takes: IPv6 with a source of its own.
    pub const LONGEST: usize = 74;

    /// Returns its length in bytes.
    pub fn length(&self) -> usize {
        match self {
            Self::Ended(key) if key.vip.is_ipv6() => 38,
            Self::Ended(_) => 14,
            Self::Put(connection) => match (source_form(connection), connection.key.vip.is_ipv6()) {
                (SOURCE_CLIENT, false) => 20,
                (SOURCE_VIP, false) => 22,
                (_, false) => 26,
                (SOURCE_CLIENT, true) => 56,
                (SOURCE_VIP, true) => 58,
                (_, true) => Self::LONGEST,
            },
        }
    }

    /// Appends its bytes. Addresses are to be of one family.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Ended(key) => {
                bytes.extend([family_flag(key), key.transport.number()]);
                write_endpoint(bytes, key.client);
                write_endpoint(bytes, key.vip);
            }
            Self::Put(connection) => {
                let Connection { key, backend, source } = connection;
                let form = source_form(connection);
                bytes.extend([PUT | family_flag(key) | form, key.transport.number()]);
                write_endpoint(bytes, key.client);
                write_endpoint(bytes, key.vip);
                write_endpoint(bytes, *backend);
                match form {
                    SOURCE_CLIENT => {}
                    SOURCE_VIP => bytes.extend(source.port().to_be_bytes()),
                    _ => write_endpoint(bytes, *source),
                }
            }
        }
    }

    /// Reads one off the front.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let [flags, number] = reader.bytes()?;
        let transport = Transport::from_number(number).ok_or(DecodeError::Transport(number))?;
        let unknown = DecodeError::EntryFlags(flags);
        if flags & !(PUT | IPV6 | SOURCE) != 0 {
            return Err(unknown);
        }
        let ipv6 = flags & IPV6 != 0;
        let client = read_endpoint(reader, ipv6)?;
        let vip = read_endpoint(reader, ipv6)?;
        let key = ConnectionKey { transport, client, vip };
        if flags & PUT == 0 {
            return if flags & SOURCE == 0 { Ok(Self::Ended(key)) } else { Err(unknown) };
        }
        let backend = read_endpoint(reader, ipv6)?;
        let source = match flags & SOURCE {
            SOURCE_SPELLED_OUT => read_endpoint(reader, ipv6)?,
            SOURCE_VIP => SocketAddr::new(vip.ip(), reader.short()?),
            SOURCE_CLIENT => client,
            _ => return Err(unknown),
        };
        let connection = Connection { key, backend, source };
        // One form for each connection: what was read is what would be written.
        if source_form(&connection) != flags & SOURCE {
            return Err(DecodeError::LongSource);
        }
        Ok(Self::Put(connection))
    }
}

fn family_flag(key: &ConnectionKey) -> u8 {
    if key.vip.is_ipv6() { IPV6 } else { 0 }
}

/// The shortest form of a connection's source.
fn source_form(Connection { key, source, .. }: &Connection) -> u8 {
    if (source.ip(), source.port()) == (key.client.ip(), key.client.port()) {
        SOURCE_CLIENT
    } else if source.ip() == key.vip.ip() {
        SOURCE_VIP
    } else {
        SOURCE_SPELLED_OUT
    }
}

fn write_endpoint(bytes: &mut Vec<u8>, endpoint: SocketAddr) {
    match endpoint.ip() {
        IpAddr::V4(address) => bytes.extend(address.octets()),
        IpAddr::V6(address) => bytes.extend(address.octets()),
    }
    bytes.extend(endpoint.port().to_be_bytes());
}

fn read_endpoint(reader: &mut Reader<'_>, ipv6: bool) -> Result<SocketAddr, DecodeError> {
    let ip: IpAddr = if ipv6 {
        Ipv6Addr::from(reader.bytes::<16>()?).into()
    } else {
        Ipv4Addr::from(reader.bytes::<4>()?).into()
    };
    Ok(SocketAddr::new(ip, reader.short()?))
}
