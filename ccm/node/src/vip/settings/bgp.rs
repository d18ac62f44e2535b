//! `bgp` of a draft into settings: the own autonomous system, and the peers.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU8;
use std::ops::RangeInclusive;
use std::time::Duration;

use windlass_engine::bgp::bfd::Config;
use windlass_engine::bgp::session::{ExpectedAs, NextHops};
use windlass_engine::bgp::wire::NextHopV6;
use windlass_engine::bgp::{Asn, Family, HoldTime, RouterId};
use windlass_engine::{BfdConfig, BfdPath, Endpoint};

use super::draft::{BfdDraft, BgpDraft, NextHopsDraft, PeerDraft, VipDraft};
use super::given::{Field, Given, SettingsError, Text, shown};
use super::values::{absolute_path, family, interface, number, port, unicast};
use super::{BgpSettings, PeerSettings, VipSettings};

const PORT: u16 = 179;
const HOLD_TIME: &str = "30";
/// Milliseconds from one BFD packet to the next, and their range.
const BFD_INTERVAL: u64 = 300;
const BFD_INTERVALS: RangeInclusive<u64> = 50..=60_000;
/// Number of BFD packets that may be missing.
const BFD_MULTIPLIER: u8 = 3;
/// Most sessions of a node (`windlass_engine`).
const MOST_PEERS: usize = 16;
const ADDRESS: &str = "192.0.2.1 or 2001:db8::1";
const ASN: &str = "write it as 64512";

/// Returns the BGP speaker; `None` where no virtual IP needs it. `list` and `drafts` are where the virtual IPs were given.
pub(super) fn bgp(
    field: &Field<'_>,
    given: Option<&Given<BgpDraft>>,
    list: &Field<'_>,
    drafts: &Given<Vec<Given<VipDraft>>>,
    vips: &[VipSettings],
) -> Result<Option<BgpSettings>, SettingsError> {
    let announced = vips.iter().zip(&drafts.value).enumerate().find(|(_, (vip, _))| vip.route.is_some());
    match (announced, given) {
        (None, None) => Ok(None),
        (None, Some(given)) => {
            let problem = "no virtual IP is announced by BGP";
            Err(field.mistake(given, problem, "add bgp to the protocols of one, or leave this out"))
        }
        (Some((number, (vip, draft))), None) => {
            let problem = format!("{} is to be announced by BGP, and there are no BGP peers", vip.address);
            let field = list.item(number).field("protocols");
            let remedy = if field.is_of_flags() {
                "give --bgp-asn and --bgp-peer"
            } else {
                "add `bgp: {localASN: 64512, peers: [{address: 192.0.2.1, peerASN: 64500}]}`"
            };
            let place = draft.value.protocols.as_ref().map_or_else(|| draft.place(), Given::place);
            Err(field.mistake(&place, problem, remedy))
        }
        (Some(_), Some(given)) => settings(field, given, vips).map(Some),
    }
}

fn settings(
    field: &Field<'_>,
    given: &Given<BgpDraft>,
    vips: &[VipSettings],
) -> Result<BgpSettings, SettingsError> {
    let draft = &given.value;
    let local_as = match &draft.local_asn {
        None => return Err(field.field("localASN").mistake(given, "it is missing", ASN)),
        Some(text) => asn(&field.field("localASN"), text)?,
    };
    let list = field.field("peers");
    let mut peers: Vec<PeerSettings> = Vec::new();
    for (number, given) in draft.peers.iter().flat_map(|peers| &peers.value).enumerate() {
        let field = list.item(number);
        let peer = peer(&field, given, vips)?;
        if peers.iter().any(|other| other.endpoint == peer.endpoint) {
            return Err(field.mistake(given, "an earlier peer is at the same place", "name each peer once"));
        }
        peers.push(peer);
    }
    let remedy = format!("name 1 to {MOST_PEERS}, as address: 192.0.2.1 or gateway: IPv4");
    let count = peers.len();
    if !(1..=MOST_PEERS).contains(&count) {
        let problem = format!("there are {count} BGP peers");
        let place = draft.peers.as_ref().map_or_else(|| given.place(), Given::place);
        return Err(list.mistake(&place, problem, remedy));
    }
    let router_id = draft.router_id.as_ref().map(|text| router_id(&field.field("routerID"), text));
    Ok(BgpSettings { local_as, router_id: router_id.transpose()?, peers })
}

fn peer(
    field: &Field<'_>,
    given: &Given<PeerDraft>,
    vips: &[VipSettings],
) -> Result<PeerSettings, SettingsError> {
    let draft = &given.value;
    let named = |name| field.field(name);
    let endpoint = endpoint(field, given, vips)?;
    let is_v4 = match &endpoint {
        Endpoint::Address { address, .. } => address.is_ipv4(),
        Endpoint::Gateway(family) => *family == Family::V4,
    };
    let source = draft.source_address.as_ref().map(|text| {
        let field = named("sourceAddress");
        let source = own_address(&field, text, vips)?;
        if source.is_ipv4() == is_v4 {
            return Ok(source);
        }
        let problem = format!("{source} is {}, and the peer is not", family(source));
        Err(field.mistake(text, problem, "give the node's address of the peer's family"))
    });
    let (hold_time, keepalive) = times(field, draft)?;
    let hops = draft.ttl_security_hops.as_ref();
    let hops = hops.map(|text| number::<u8>(&named("ttlSecurityHops"), text, &(1..=254))).transpose()?;
    let password_file = draft.password_file.as_ref();
    Ok(PeerSettings {
        endpoint,
        expected_as: expected_as(field, given)?,
        port: draft.port.as_ref().map(|text| port(&named("port"), text)).transpose()?.unwrap_or(PORT),
        source: source.transpose()?,
        hold_time,
        keepalive,
        password_file: password_file.map(|text| absolute_path(&named("passwordFile"), text)).transpose()?,
        minimum_ttl: hops.map(|hops| u8::MAX - (hops - 1)),
        bfd: draft.bfd.as_ref().map(|given| bfd(&named("bfd"), given)).transpose()?,
        next_hops: next_hops(&named("nextHops"), draft.next_hops.as_ref(), vips)?,
    })
}

fn endpoint(
    field: &Field<'_>,
    given: &Given<PeerDraft>,
    vips: &[VipSettings],
) -> Result<Endpoint, SettingsError> {
    let draft = &given.value;
    let interface = draft.interface.as_ref().map(|text| interface(&field.field("interface"), text));
    let interface = interface.transpose()?;
    match (&draft.address, &draft.gateway) {
        (Some(text), None) => {
            let field = field.field("address");
            let address = own_address(&field, text, vips)?;
            let is_link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
            if is_link_local && interface.is_none() {
                let problem = format!("{address} is a link-local address, which each interface has");
                return Err(field.mistake(text, problem, "name the interface, as interface: eth0"));
            }
            Ok(Endpoint::Address { address, interface })
        }
        (None, Some(text)) => {
            if let Some(text) = &draft.interface {
                let problem = "a gateway is reached by the interface of its route";
                return Err(field.field("interface").mistake(text, problem, "leave it out"));
            }
            match text.value.as_str() {
                "IPv4" => Ok(Endpoint::Gateway(Family::V4)),
                "IPv6" => Ok(Endpoint::Gateway(Family::V6)),
                other => {
                    let problem = format!("{} is neither IPv4 nor IPv6", shown(other));
                    Err(field.field("gateway").mistake(text, problem, "name the family of the default route"))
                }
            }
        }
        (Some(_), Some(text)) => {
            let problem = "the peer has an address as well";
            Err(field.field("gateway").mistake(text, problem, "give one of address and gateway"))
        }
        (None, None) => {
            let remedy = "give one, as address: 192.0.2.1 or gateway: IPv4";
            Err(field.mistake(given, "it has neither address nor gateway", remedy))
        }
    }
}

fn expected_as(field: &Field<'_>, given: &Given<PeerDraft>) -> Result<ExpectedAs, SettingsError> {
    const REMEDY: &str = "give one, as peerASN: 64500 or dynamicASN: External";
    match (&given.value.peer_asn, &given.value.dynamic_asn) {
        (Some(text), None) => asn(&field.field("peerASN"), text).map(ExpectedAs::Exactly),
        (None, Some(text)) => match text.value.as_str() {
            "External" => Ok(ExpectedAs::External),
            "Internal" => Ok(ExpectedAs::Internal),
            other => {
                let problem = format!("{} is neither External nor Internal", shown(other));
                Err(field.field("dynamicASN").mistake(text, problem, "use one of the two"))
            }
        },
        (Some(_), Some(text)) => {
            Err(field.field("dynamicASN").mistake(text, "the peer has a peerASN as well", REMEDY))
        }
        (None, None) => Err(field.mistake(given, "it has neither peerASN nor dynamicASN", REMEDY)),
    }
}

fn asn(field: &Field<'_>, text: &Text) -> Result<Asn, SettingsError> {
    let value: u32 = number(field, text, &(1..=u64::from(u32::MAX)))?;
    Asn::new(value).map_err(|error| field.mistake(text, error, ASN))
}

/// An identifier that old routers accept, too: they take it for a unicast address.
fn router_id(field: &Field<'_>, text: &Text) -> Result<RouterId, SettingsError> {
    let remedy = "use an IPv4 address of the node, or leave it out";
    let address: Option<Ipv4Addr> = text.value.parse().ok();
    let Some(address) = address else {
        return Err(field.mistake(text, format!("{} is not an IPv4 address", shown(&text.value)), remedy));
    };
    let is_usable = !matches!(address.octets()[0], 0 | 127 | 224..);
    let id = RouterId::new(address).ok().filter(|_| is_usable);
    id.ok_or_else(|| field.mistake(text, format!("{address} is not a unicast address"), remedy))
}

fn times(field: &Field<'_>, draft: &PeerDraft) -> Result<(HoldTime, Option<Duration>), SettingsError> {
    let default = Given::by_flag(HOLD_TIME.to_owned());
    let text = draft.hold_time_seconds.as_ref().unwrap_or(&default);
    let (hold_field, field) = (field.field("holdTimeSeconds"), field.field("keepaliveSeconds"));
    let hold: u16 = number(&hold_field, text, &(0..=u64::from(u16::MAX)))?;
    let hold_time =
        HoldTime::new(hold).map_err(|error| hold_field.mistake(text, error, "leave it out for 30"))?;
    let Some(text) = &draft.keepalive_seconds else { return Ok((hold_time, None)) };
    let keepalive: u16 = number(&field, text, &(1..=u64::from(u16::MAX / 3)))?;
    if keepalive > hold / 3 {
        let problem = format!("{keepalive} s is more than a third of the hold time of {hold} s");
        return Err(field.mistake(text, problem, "use less, a longer holdTimeSeconds, or leave it out"));
    }
    Ok((hold_time, Some(Duration::from_secs(keepalive.into()))))
}

fn bfd(field: &Field<'_>, given: &Given<BfdDraft>) -> Result<BfdConfig, SettingsError> {
    let draft = &given.value;
    let interval = |name, text: &Option<Text>| {
        number_or(BFD_INTERVAL, &field.field(name), text.as_ref(), &BFD_INTERVALS).map(Duration::from_millis)
    };
    let multiplier = draft.detect_multiplier.as_ref();
    let multiplier =
        number_or(BFD_MULTIPLIER, &field.field("detectMultiplier"), multiplier, &(1..=u8::MAX.into()))?;
    let timers = Config {
        transmit: interval("transmitIntervalMilliseconds", &draft.transmit_interval_milliseconds)?,
        receive: interval("receiveIntervalMilliseconds", &draft.receive_interval_milliseconds)?,
        multiplier: NonZeroU8::new(multiplier).unwrap_or(NonZeroU8::MIN),
    };
    let path = match &draft.minimum_ttl {
        None => BfdPath::SingleHop,
        Some(text) => {
            BfdPath::Multihop { minimum_ttl: number(&field.field("minimumTTL"), text, &(1..=254))? }
        }
    };
    BfdConfig::new(timers, path).map_err(|error| field.mistake(given, error, "change the intervals"))
}

/// The number of a field, or its default.
fn number_or<T: TryFrom<u64>>(
    default: T,
    field: &Field<'_>,
    text: Option<&Text>,
    range: &RangeInclusive<u64>,
) -> Result<T, SettingsError> {
    text.map_or(Ok(default), |text| number(field, text, range))
}

fn next_hops(
    field: &Field<'_>,
    given: Option<&Given<NextHopsDraft>>,
    vips: &[VipSettings],
) -> Result<NextHops, SettingsError> {
    let Some(given) = given else { return Ok(NextHops { ipv4: None, ipv6: None }) };
    let of = |name, text: Option<&Text>, example: &str| {
        let Some(text) = text else { return Ok(None) };
        let field = field.field(name);
        let address = own_address(&field, text, vips)?;
        if address.is_ipv4() == (name == "ipv4") {
            return Ok(Some(address));
        }
        let problem = format!("{address} is {}", family(address));
        Err(field.mistake(text, problem, format!("give an address as {example}")))
    };
    let ipv4 = of("ipv4", given.value.ipv4.as_ref(), "192.0.2.11")?;
    let ipv6 = of("ipv6", given.value.ipv6.as_ref(), "2001:db8::11")?;
    Ok(NextHops {
        ipv4: ipv4.and_then(|address| if let IpAddr::V4(v4) = address { Some(v4) } else { None }),
        ipv6: ipv6.and_then(
            |address| {
                if let IpAddr::V6(v6) = address { Some(NextHopV6(v6, None)) } else { None }
            },
        ),
    })
}

/// An address of a router or of the node: no virtual IP.
fn own_address(field: &Field<'_>, text: &Text, vips: &[VipSettings]) -> Result<IpAddr, SettingsError> {
    let address = unicast(field, text, ADDRESS)?;
    if vips.iter().any(|vip| vip.address == address) {
        let remedy = "give an address that one host has";
        return Err(field.mistake(text, format!("{address} is a virtual IP"), remedy));
    }
    Ok(address)
}
