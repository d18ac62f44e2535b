//! Outgoing TCP connections that never block, with the options of routing protocols: MD5 signatures, hop limits, and the bytes that the
//! peer has not acknowledged.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::socket::sockopt::{GetStruct, SetStruct};
use nix::sys::socket::{getsockopt, setsockopt};
use socket2::{Domain, Protocol, Socket, Type};

#[cfg(test)]
mod tests;

/// Precedence of network control in the IP header (class selector 6).
pub(crate) const CLASS_SELECTOR_6: u32 = 0xc0;
/// Hop limit of what is sent: a peer that demands it proves that the sender is on its link (RFC 5082).
pub(crate) const HOP_LIMIT: u32 = 255;
/// Bytes of the receive buffer, which the kernel doubles. It bounds what has arrived and is not read.
const RECEIVE_BUFFER: usize = 1 << 16;
/// Bytes of `struct tcp_md5sig`: the address, then flags and lengths, then the key.
const MD5_OPTION: usize = 216;
/// Numbers of 32 bits at the front of `struct tcp_info`, up to `tcpi_notsent_bytes`.
const INFO: usize = 37;

/// Key for the signatures of a peer's segments (RFC 2385).
#[derive(Clone, Debug)]
struct Md5Signature;
nix::setsockopt_impl!(
    Md5Signature,
    libc::IPPROTO_TCP,
    libc::TCP_MD5SIG,
    [u8; MD5_OPTION],
    SetStruct<'_, [u8; MD5_OPTION]>
);

/// Smallest TTL of received packets.
#[derive(Clone, Debug)]
struct MinimumTtl;
nix::setsockopt_impl!(MinimumTtl, libc::IPPROTO_IP, libc::IP_MINTTL, i32, SetStruct<'_, i32>);

/// Smallest hop limit of received packets.
#[derive(Clone, Debug)]
struct MinimumHopLimit;
nix::setsockopt_impl!(MinimumHopLimit, libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT, i32, SetStruct<'_, i32>);

/// State of a connection.
#[derive(Clone, Copy, Debug)]
struct Info;
nix::getsockopt_impl!(Info, libc::IPPROTO_TCP, libc::TCP_INFO, [u32; INFO], GetStruct<[u32; INFO]>);

/// Key of TCP MD5 signatures: 1 to 80 bytes. It is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Md5Key(Vec<u8>);

/// A key that TCP cannot use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a TCP MD5 key of {0} bytes: use 1 to 80")]
pub struct InvalidMd5Key(pub usize);

impl Md5Key {
    /// The key of these bytes, refused if empty or longer than 80.
    pub fn new(key: &[u8]) -> Result<Self, InvalidMd5Key> {
        if (1..=80).contains(&key.len()) { Ok(Self(key.to_vec())) } else { Err(InvalidMd5Key(key.len())) }
    }

    /// The key as the kernel takes it, for segments from and to `peer`.
    fn option(&self, peer: IpAddr) -> [u8; MD5_OPTION] {
        let mut option = [0; MD5_OPTION];
        let mut put = |at, bytes: &[u8]| {
            option.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
        };
        // The families' numbers are below 256.
        match peer {
            IpAddr::V4(address) => {
                put(0, &2_u16.to_ne_bytes());
                put(4, &address.octets());
            }
            IpAddr::V6(address) => {
                put(0, &10_u16.to_ne_bytes());
                put(8, &address.octets());
            }
        }
        put(130, &u16::try_from(self.0.len()).unwrap_or_default().to_ne_bytes());
        put(136, &self.0);
        option
    }
}

impl std::fmt::Debug for Md5Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Md5Key")
    }
}

/// Connection to open.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the engine")]
pub struct Dial<'a> {
    /// The peer.
    pub peer: SocketAddr,
    /// Own address; `None`: by route.
    pub source: Option<IpAddr>,
    /// Interface by which it is reached; `None`: by route.
    pub interface: Option<&'a str>,
    /// Key with which both sides sign.
    pub md5: Option<&'a Md5Key>,
    /// Smallest TTL or hop limit of the peer's packets (RFC 5082).
    pub minimum_ttl: Option<u8>,
    /// Longest time for which the peer may acknowledge nothing.
    pub user_timeout: Option<Duration>,
}

/// A step of opening a connection that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub struct DialError {
    what: &'static str,
    source: io::Error,
}

/// A connection, or an attempt.
#[derive(Debug)]
pub struct TcpConnection(Socket);

impl TcpConnection {
    /// Begins to connect. It becomes writable when the outcome is known.
    pub fn dial(dial: &Dial<'_>) -> Result<Self, DialError> {
        let step = |what| move |source| DialError { what, source };
        let domain = Domain::for_address(dial.peer);
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP));
        let socket = socket.map_err(step("open a TCP socket"))?;
        set_options(&socket, dial).map_err(step("set the options of a TCP socket"))?;
        if let Some(interface) = dial.interface {
            socket.bind_device(Some(interface.as_bytes())).map_err(step("use the interface"))?;
        }
        if let Some(source) = dial.source {
            let own = SocketAddr::new(source, 0);
            socket.bind(&own.into()).map_err(step("use the source address"))?;
        }
        match socket.connect(&dial.peer.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
                Err(DialError { what: "connect", source: error })
            }
            Ok(()) | Err(_) => Ok(Self(socket)),
        }
    }

    /// Returns the own address once it is connected, `None` before, or the reason why it does not connect.
    pub fn connected(&self) -> io::Result<Option<IpAddr>> {
        if let Some(error) = self.0.take_error()? {
            return Err(error);
        }
        match self.0.peer_addr() {
            Ok(_) => Ok(self.0.local_addr()?.as_socket().map(|own| own.ip())),
            Err(_) => Ok(None),
        }
    }

    /// Reads what has arrived; 0: the peer has closed its side.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut &self.0, buffer)
    }

    /// Writes as many of these bytes as there is room for.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_with_flags(bytes, libc::MSG_NOSIGNAL)
    }

    /// Returns true if the peer has acknowledged all bytes that were written.
    pub fn is_acknowledged(&self) -> io::Result<bool> {
        let info = getsockopt(&self.0, Info)?;
        // Segments sent and not acknowledged, bytes not sent.
        Ok([6, 36].iter().all(|at| info.get(*at) == Some(&0)))
    }

    /// Closes it and discards what is not sent.
    pub fn reset(self) {
        let _ = self.0.set_linger(Some(Duration::ZERO));
    }
}

impl AsFd for TcpConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn set_options(socket: &Socket, dial: &Dial<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.set_tcp_user_timeout(dial.user_timeout)?;
    let minimum = dial.minimum_ttl.map(i32::from);
    match dial.peer {
        SocketAddr::V4(_) => {
            socket.set_ttl_v4(HOP_LIMIT)?;
            socket.set_tos_v4(CLASS_SELECTOR_6)?;
            minimum.map_or(Ok(()), |minimum| setsockopt(socket, MinimumTtl, &minimum))?;
        }
        SocketAddr::V6(_) => {
            socket.set_unicast_hops_v6(HOP_LIMIT)?;
            socket.set_tclass_v6(CLASS_SELECTOR_6)?;
            minimum.map_or(Ok(()), |minimum| setsockopt(socket, MinimumHopLimit, &minimum))?;
        }
    }
    if let Some(key) = dial.md5 {
        setsockopt(socket, Md5Signature, &key.option(dial.peer.ip()))?;
    }
    Ok(())
}
