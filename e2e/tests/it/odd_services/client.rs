//! A client of the LAN that asks a port for the server's name, by each protocol of a Service.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    time::Duration,
};

use anyhow::ensure;
use windlass_e2e::{Lab, await_that};

use super::{sctp, sctp_packets};
use crate::setup::LIMIT;

/// How long one attempt may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
    Sctp,
}

impl Transport {
    pub(super) const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// Its number.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    fn ask(self, target: SocketAddr) -> io::Result<String> {
        match self {
            Self::Tcp => {
                let mut stream = TcpStream::connect_timeout(&target, PATIENCE)?;
                ask_over(&mut stream)
            }
            Self::Udp => {
                let socket = UdpSocket::bind((any(target.is_ipv4()), 0))?;
                socket.connect(target)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.send(b"hostname")?;
                let mut answer = [0; 512];
                let length = socket.recv(&mut answer)?;
                Ok(String::from_utf8_lossy(&answer[..length]).trim().to_owned())
            }
            Self::Sctp => sctp::ask(target),
        }
    }

    /// As [`Self::ask`], by packets that show what comes back: the kernel's SCTP keeps unreachable ports to itself.
    fn knock(self, target: SocketAddr) -> io::Result<String> {
        match self {
            Self::Tcp | Self::Udp => self.ask(target),
            Self::Sctp => sctp_packets::associate(target),
        }
    }
}

/// Asks for the server's name over a connection, which stays.
pub(super) fn ask_over(stream: &mut TcpStream) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /hostname HTTP/1.1\r\nHost: web\r\n\r\n")?;
    let (mut answer, mut piece) = (Vec::new(), [0; 512]);
    loop {
        let length = stream.read(&mut piece)?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&answer);
        // The name comes in one piece with its header, but that is not for us to know.
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
        if length.is_some_and(|length: usize| body.len() >= length) {
            return Ok(body.to_owned());
        }
    }
}

/// All addresses of a family.
pub(super) fn any(ipv4: bool) -> IpAddr {
    if ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// Waits until `server` answers the client.
pub(super) async fn await_answered(
    lab: &Lab,
    transport: Transport,
    address: IpAddr,
    port: u16,
    server: &str,
) -> anyhow::Result<()> {
    let target = SocketAddr::new(address, port);
    await_that(&format!("{server} answers {transport:?} at {target}"), LIMIT, async || {
        let answer = lab.within("c1", || transport.ask(target))??;
        ensure!(answer == server, "{answer:?} answered");
        Ok(Some(()))
    })
    .await
}

/// Waits until the client is refused at once.
pub(super) async fn await_refused(
    lab: &Lab,
    transport: Transport,
    address: IpAddr,
    port: u16,
) -> anyhow::Result<()> {
    let target = SocketAddr::new(address, port);
    await_that(&format!("{transport:?} to {target} is refused"), LIMIT, async || {
        match lab.within("c1", || transport.knock(target))? {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(Some(())),
            other => anyhow::bail!("the client got {other:?}"),
        }
    })
    .await
}
