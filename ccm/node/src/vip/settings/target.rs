//! Hosts, ports and URLs that checks ask, from their text.

use std::net::IpAddr;

use http::Uri;

use crate::checks::{Host, Target};

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
