use super::*;

mod foreign_routers;
mod golden;
mod headers;
mod ladder;
mod lists;
mod properties;
mod templates;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn path(source: &str, destination: &str) -> Path {
    Path::new(ip(source), ip(destination)).unwrap()
}

/// An advert to the default group; its version is not yet said.
fn advert(source: &str, vrid: u8, priority: u8, centiseconds: u16, addresses: &[&str]) -> Advert {
    let source = ip(source);
    Advert {
        path: Path::new(source, default_group(Family::of(source))).unwrap(),
        ttl: TTL,
        vrid: Vrid::new(vrid).unwrap(),
        priority: Priority::new(priority).ok(),
        interval: Interval::from_centiseconds(centiseconds).unwrap(),
        addresses: AddressList::representing(&addresses.iter().map(|a| ip(a)).collect(), source, usize::MAX),
    }
}

/// A payload as if received in that way.
fn received(path: Path, ttl: u8, payload: &[u8]) -> Datagram<'_> {
    Datagram { source: path.source(), destination: path.destination(), ttl, payload }
}

/// From 192.0.2.1 to the group.
fn from_neighbour(payload: &[u8]) -> Datagram<'_> {
    received(path("192.0.2.1", "224.0.0.18"), TTL, payload)
}

/// Adverts to the default group, without trailer.
fn expecting(versions: Versions, family: Family) -> ExpectedAdvert {
    ExpectedAdvert {
        versions,
        addressing: Addressing::Multicast { group: default_group(family), unicast: false },
        trailer: false,
    }
}

/// `payload` with its checksum (bytes 6 and 7) made right over `covered` of its bytes.
fn summed(payload: &[u8], covered: usize, path: Path, pseudo: bool) -> Vec<u8> {
    let mut payload = payload.to_vec();
    payload[6..8].fill(0);
    let covered = ChecksumInput {
        message: &payload[..covered],
        source: path.source(),
        destination: path.destination(),
    };
    let sum = covered.compute(pseudo).to_be_bytes();
    payload[6..8].copy_from_slice(&sum);
    payload
}

/// A message for IPv4 from the neighbour, given as text, with its message-only checksum made right.
fn corrected(message: &str) -> Vec<u8> {
    let message = unhex(message);
    summed(&message, message.len(), path("192.0.2.1", "224.0.0.18"), false)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
