//! Hosts, ports and URLs that checks ask.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::Uri;

/// A host that is found without DNS: a check has to work when nothing else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    /// This address.
    Address(IpAddr),
    /// `localhost`: the loopback address of either family, IPv4 first.
    Localhost,
}

/// A host and a port of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: Host,
    /// Not 0.
    pub(crate) port: u16,
}

impl Target {
    /// Returns the addresses to try, in that order.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let hosts = match self.host {
            Host::Address(address) => vec![address],
            Host::Localhost => vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
        };
        hosts.into_iter().map(|host| SocketAddr::new(host, self.port)).collect()
    }

    /// Returns true if it is the local host, whichever host that is.
    pub(super) fn is_this_host(&self) -> bool {
        match self.host {
            Host::Address(address) => address.is_loopback() || address.is_unspecified(),
            Host::Localhost => true,
        }
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self { host: Host::Address(address.ip()), port: address.port() }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port;
        match self.host {
            Host::Address(address) => SocketAddr::new(address, port).fmt(f),
            Host::Localhost => write!(f, "localhost:{port}"),
        }
    }
}

/// Problem of a text, and its remedy.
pub(super) type Wrong = (String, &'static str);

const HOST_REMEDY: &str = "use an IP address or localhost; IPv6 as [::1]";
const PORT_REMEDY: &str = "give one from 1 to 65535, as 127.0.0.1:6443";

fn host(text: &str) -> Result<Host, Wrong> {
    if text.eq_ignore_ascii_case("localhost") {
        return Ok(Host::Localhost);
    }
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|inner| inner.contains(':')),
        None => Some(text).filter(|text| !text.contains(':')),
    };
    let address: Option<IpAddr> = bare.and_then(|bare| bare.parse().ok());
    match address {
        Some(address) if address.is_multicast() => {
            Err((format!("{address} is a multicast address, and no server has it"), HOST_REMEDY))
        }
        Some(address) => Ok(Host::Address(address)),
        None => Err((format!("host {text:?} is not an IP address, and checks do not use DNS"), HOST_REMEDY)),
    }
}

fn port(text: &str) -> Result<u16, Wrong> {
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let port = digits.and_then(|digits| digits.parse().ok()).filter(|port| *port > 0);
    port.ok_or_else(|| (format!("{text:?} is not a port"), PORT_REMEDY))
}

/// `HOST:PORT`.
pub(super) fn host_and_port(text: &str) -> Result<Target, Wrong> {
    let (name, number) = text
        .rsplit_once(':')
        .filter(|(name, _)| !name.starts_with('[') || name.ends_with(']'))
        .ok_or_else(|| ("the port is missing".to_owned(), PORT_REMEDY))?;
    Ok(Target { host: host(name)?, port: port(number)? })
}

/// A page's server and its path, by its URL.
pub(super) fn page(url: &str, scheme: &'static str) -> Result<(Target, String), Wrong> {
    const REMEDY: &str = "write it as https://127.0.0.1:6443/readyz";
    if url.contains('#') {
        return Err(("a check sends no fragment (#…) to the server".to_owned(), "leave it out"));
    }
    let parsed: Uri = url.parse().map_err(|error| (format!("it is not a URL ({error})"), REMEDY))?;
    if parsed.scheme_str() != Some(scheme) {
        return Err((format!("it does not begin with {scheme}://"), REMEDY));
    }
    let authority = parsed.authority().map_or("", http::uri::Authority::as_str);
    if authority.contains('@') {
        return Err(("a check sends no user name to the server".to_owned(), "leave it out"));
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, rest)| !rest.ends_with(']'));
    let target = match (has_port, scheme) {
        (true, _) => host_and_port(authority)?,
        (false, "http") => Target { host: host(authority)?, port: 80 },
        (false, _) => Target { host: host(authority)?, port: 443 },
    };
    let path = parsed.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    Ok((target, if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }))
}
