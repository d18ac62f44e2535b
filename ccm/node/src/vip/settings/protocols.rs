//! `protocols` of a virtual IP, and the attributes of its BGP route.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use windlass_engine::bgp::Prefix;
use windlass_engine::bgp::wire::{Attributes, Communities, Community, ExtendedCommunity, LargeCommunity};

use super::draft::VipDraft;
use super::given::{Field, Given, SettingsError, Text, shown};
use super::values::number;

const COMMUNITY: &str = "write it as 64512:100, large:64512:1:2, rt:64512:7, soo:64512:8, no-export, \
    no-advertise or no-peer";
/// Repetitions of the own AS.
const PREPEND: RangeInclusive<u64> = 0..=16;
const NUMBER: RangeInclusive<u64> = 0..=u32::MAX as u64;

/// Returns true if nodes elect the one that answers for the address, and the attributes of its route if BGP routers get one.
pub(super) fn protocols(
    field: &Field<'_>,
    given: &Given<VipDraft>,
    address: IpAddr,
) -> Result<(bool, Option<Attributes>), SettingsError> {
    let draft = &given.value;
    let (vrrp, bgp) = named(&field.field("protocols"), draft.protocols.as_ref())?;
    let first = |fields: &[(&'static str, Option<Given<()>>)]| {
        fields.iter().find_map(|(name, place)| Some((*name, place.clone()?)))
    };
    let of_vrrp = first(&[
        ("vrid", place(draft.vrid.as_ref())),
        ("priority", place(draft.priority.as_ref())),
        ("preempt", place(draft.preempt.as_ref())),
        ("advertIntervalMs", place(draft.advert_interval_ms.as_ref())),
        ("peers", place(draft.peers.as_ref())),
        ("multicast", place(draft.multicast.as_ref())),
    ]);
    let of_bgp = first(&[
        ("communities", place(draft.communities.as_ref())),
        ("localPreference", place(draft.local_preference.as_ref())),
        ("med", place(draft.med.as_ref())),
        ("prepend", place(draft.prepend.as_ref())),
    ]);
    if let Some((name, value)) = of_vrrp.filter(|_| !vrrp) {
        let problem = "it is a setting of VRRP, and protocols does not contain vrrp";
        return Err(field.field(name).mistake(&value, problem, "leave it out, or add vrrp to protocols"));
    }
    if !bgp {
        return match of_bgp {
            None => Ok((vrrp, None)),
            Some((name, value)) => {
                let problem = "it is a setting of BGP, and protocols does not contain bgp";
                Err(field.field(name).mistake(&value, problem, "leave it out, or add bgp to protocols"))
            }
        };
    }
    if let (Some(text), Err(error)) = (&draft.address, Prefix::try_from(address)) {
        return Err(field.field("address").mistake(text, error, "use another address, or protocols: [vrrp]"));
    }
    if let Some(bind) = draft.bind.as_ref().filter(|bind| bind.value == "true") {
        let problem = "with bgp, packets arrive at all nodes, and bind adds the address to one";
        let remedy = "leave bind out, and let the program listen on the node's own address";
        return Err(field.field("bind").mistake(bind, problem, remedy));
    }
    let balance = draft.balance.as_ref().map(|balance| &balance.value);
    if let Some(source) =
        balance.and_then(|balance| balance.source.as_ref()).filter(|text| text.value == "Keep")
    {
        let problem = "with bgp, connections are balanced by all nodes, and Keep is not tested for that";
        let field = field.field("balance").field("source");
        return Err(field.mistake(source, problem, "use Masquerade"));
    }
    Ok((vrrp, Some(attributes(field, draft)?)))
}

/// Returns true for VRRP and for BGP where they are named.
fn named(field: &Field<'_>, given: Option<&Given<Vec<Text>>>) -> Result<(bool, bool), SettingsError> {
    const REMEDY: &str = "use [vrrp], [bgp] or [vrrp, bgp]";
    let Some(given) = given else { return Ok((true, false)) };
    let (mut vrrp, mut bgp) = (false, false);
    for (number, text) in given.value.iter().enumerate() {
        let is_named = match text.value.as_str() {
            "vrrp" => &mut vrrp,
            "bgp" => &mut bgp,
            other => {
                let problem = format!("{} is neither vrrp nor bgp", shown(other));
                return Err(field.item(number).mistake(text, problem, REMEDY));
            }
        };
        if std::mem::replace(is_named, true) {
            let problem = format!("{} is named twice", text.value);
            return Err(field.item(number).mistake(text, problem, "name it once"));
        }
    }
    if vrrp || bgp { Ok((vrrp, bgp)) } else { Err(field.mistake(given, "the list is empty", REMEDY)) }
}

/// Place at which a field was given, without its value.
fn place<T>(given: Option<&Given<T>>) -> Option<Given<()>> {
    given.map(Given::place)
}

fn attributes(field: &Field<'_>, draft: &VipDraft) -> Result<Attributes, SettingsError> {
    let number_of = |name, text: Option<&Text>| {
        text.map(|text| number::<u32>(&field.field(name), text, &NUMBER)).transpose()
    };
    let prepend = draft.prepend.as_ref().map(|text| number(&field.field("prepend"), text, &PREPEND));
    let local_preference = number_of("localPreference", draft.local_preference.as_ref())?;
    let list = field.field("communities");
    let (mut communities, mut large, mut extended) = (Vec::new(), Vec::new(), Vec::new());
    for (number, text) in draft.communities.iter().flat_map(|given| &given.value).enumerate() {
        match text.value.as_str() {
            "no-export" => communities.push(Community::NO_EXPORT),
            "no-advertise" => communities.push(Community::NO_ADVERTISE),
            "no-peer" => communities.push(Community::NO_PEER),
            other => match (community(other), large_community(other), extended_community(other)) {
                (Some(community), ..) => communities.push(community),
                (None, Some(community), _) => large.push(community),
                (None, None, Some(community)) => extended.push(community),
                (None, None, None) => {
                    let problem = format!("{} is not a community", shown(other));
                    return Err(list.item(number).mistake(text, problem, COMMUNITY));
                }
            },
        }
    }
    let given = place(draft.communities.as_ref()).unwrap_or_default();
    let too_many = |error| list.mistake(&given, error, "leave some out");
    let defaults = Attributes::default();
    Ok(Attributes {
        prepend: prepend.transpose()?.unwrap_or(defaults.prepend),
        local_preference: local_preference.unwrap_or(defaults.local_preference),
        med: number_of("med", draft.med.as_ref())?,
        communities: Communities::new(communities).map_err(too_many)?,
        large: Communities::new(large).map_err(too_many)?,
        extended: Communities::new(extended).map_err(too_many)?,
    })
}

/// `64512:100`.
fn community(text: &str) -> Option<Community> {
    let (high, low) = text.split_once(':')?;
    Some(Community::new(decimal(high)?, decimal(low)?))
}

/// `large:64512:1:2`.
fn large_community(text: &str) -> Option<LargeCommunity> {
    let words = text.strip_prefix("large:")?.split(':').map(decimal);
    let words = words.collect::<Option<Vec<u32>>>()?;
    Some(LargeCommunity(words.try_into().ok()?))
}

/// `rt:64512:7`, `soo:64512:8`.
fn extended_community(text: &str) -> Option<ExtendedCommunity> {
    let (kind, (asn, number)) =
        text.split_once(':').and_then(|(kind, rest)| Some((kind, rest.split_once(':')?)))?;
    let (asn, number) = (decimal(asn)?, decimal(number)?);
    match kind {
        "rt" => ExtendedCommunity::route_target(asn, number),
        "soo" => ExtendedCommunity::site_of_origin(asn, number),
        _ => None,
    }
}

/// A number without a sign, which `parse` would take.
fn decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}
