//! A draft into settings: the virtual IPs, one by one and beside each other.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_vrrp::{Interval, Vrid};

use super::balance::balance;
use super::bgp::bgp;
use super::checks::check;
use super::draft::{Draft, VipDraft};
use super::given::{Field, Given, SettingsError, Source, Text};
use super::protocols::protocols;
use super::values::{absolute_path, family, flag, interface, number, port, unicast};
use super::{BalanceSettings, CheckKind, CheckSettings, Settings, VipSettings};

const NOBODY: &str = "there is no virtual IP";
const PRIORITY: std::ops::RangeInclusive<u64> = 101..=200;
const DEFAULT_ADVERT_INTERVAL_MS: u32 = 100;

/// Returns the settings of a draft.
pub(super) fn settings(draft: &Draft, source: Source<'_>) -> Result<Settings, SettingsError> {
    let root = Field::root(source);
    let keys_dir =
        draft.keys_dir.as_ref().map(|folder| absolute_path(&root.field("keysDir"), folder)).transpose()?;
    let list = root.field("vips");
    let remedy = match source {
        Source::File(_) => "list at least one, as `vips: [{address: 192.0.2.5, ports: [6443]}]`",
        Source::Flags => {
            "give one, as --address=192.0.2.5, or a file of settings, as --config=/etc/windlass/vip.yaml"
        }
    };
    let Some(given) = &draft.vips else {
        return Err(list.mistake(&Given::by_flag(()), NOBODY, remedy));
    };
    if given.value.is_empty() {
        return Err(list.mistake(given, NOBODY, remedy));
    }
    let addresses = addresses(&list, &given.value)?;
    let all = addresses.iter().copied().collect();
    let vips = given.value.iter().zip(addresses).enumerate();
    let vips = vips.map(|(number, (draft, address))| vip(&list.item(number), draft, address, &all));
    let vips = vips.collect::<Result<Vec<_>, _>>()?;
    refuse_shared_vrid(&list, &given.value, &vips)?;
    let bgp = bgp(&root.field("bgp"), draft.bgp.as_ref(), &list, given, &vips)?;
    Ok(Settings { keys_dir, bgp, vips })
}

fn addresses(list: &Field<'_>, drafts: &[Given<VipDraft>]) -> Result<Vec<IpAddr>, SettingsError> {
    let mut addresses = Vec::with_capacity(drafts.len());
    for (number, given) in drafts.iter().enumerate() {
        let field = list.item(number).field("address");
        let Some(text) = &given.value.address else {
            return Err(field.mistake(given, "it is missing", "write it as 192.0.2.5 or 2001:db8::5"));
        };
        let address = unicast(&field, text, "192.0.2.5 or 2001:db8::5")?;
        if addresses.contains(&address) {
            return Err(field.mistake(text, format!("{address} is given twice"), "give each address once"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

fn vip(
    field: &Field<'_>,
    given: &Given<VipDraft>,
    address: IpAddr,
    virtual_ips: &BTreeSet<IpAddr>,
) -> Result<VipSettings, SettingsError> {
    let draft = &given.value;
    let named = |name| field.field(name);
    let (vrrp, route) = protocols(field, given, address)?;
    let checks = draft.checks.iter().flatten().enumerate();
    let checks = checks.map(|(number, draft)| check(&named("checks").item(number), draft));
    let checks = checks.collect::<Result<Vec<_>, _>>()?;
    let balance = draft.balance.as_ref();
    let balance =
        balance.map(|given| balance_of(&named("balance"), given, draft, address, virtual_ips, &checks));
    let balance = balance.transpose()?;
    let peers = peers(&named("peers"), draft.peers.as_ref(), address, virtual_ips)?;
    let multicast = flag(&named("multicast"), draft.multicast.as_ref(), peers.is_empty())?;
    if let Some(text) = draft.multicast.as_ref().filter(|_| peers.is_empty() && !multicast) {
        let problem = "without multicast and without peers no node would receive this node's adverts";
        return Err(named("multicast").mistake(text, problem, "name the other nodes as peers"));
    }
    Ok(VipSettings {
        address,
        vrrp,
        route,
        interface: draft.interface.as_ref().map(|text| interface(&named("interface"), text)).transpose()?,
        ports: ports(field, given, &checks, balance.as_ref())?,
        vrid: draft.vrid.as_ref().map(|text| vrid(&named("vrid"), text)).transpose()?,
        priority: draft
            .priority
            .as_ref()
            .map(|text| number(&named("priority"), text, &PRIORITY))
            .transpose()?,
        preempt: flag(&named("preempt"), draft.preempt.as_ref(), false)?,
        advert_interval: advert_interval(&named("advertIntervalMs"), draft.advert_interval_ms.as_ref())?,
        peers,
        multicast,
        bind: flag(&named("bind"), draft.bind.as_ref(), false)?,
        checks,
        balance,
    })
}

fn balance_of(
    field: &Field<'_>,
    given: &Given<super::BalanceDraft>,
    draft: &VipDraft,
    address: IpAddr,
    virtual_ips: &BTreeSet<IpAddr>,
    checks: &[CheckSettings],
) -> Result<BalanceSettings, SettingsError> {
    if draft.bind.as_ref().is_some_and(|bind| bind.value == "true") {
        let problem = "with bind, this node's own programs serve the address, and Windlass balances none of its connections";
        return Err(field.mistake(given, problem, "leave out balance or bind"));
    }
    balance(field, given, address, virtual_ips, checks)
}

/// Refuses a VRID that two virtual IPs share. VRIDs are distinct per LAN and family (RFC 9568 §5.2.3): virtual IPs that differ in interface
/// or family may have the same.
fn refuse_shared_vrid(
    list: &Field<'_>,
    drafts: &[Given<VipDraft>],
    vips: &[VipSettings],
) -> Result<(), SettingsError> {
    for (number, (vip, draft)) in vips.iter().zip(drafts).enumerate() {
        let Some((vrid, text)) = vip.vrid.zip(draft.value.vrid.as_ref()) else { continue };
        let clashes = |other: &&VipSettings| {
            let elsewhere = matches!((&other.interface, &vip.interface), (Some(a), Some(b)) if a != b);
            other.vrid == Some(vrid) && other.address.is_ipv4() == vip.address.is_ipv4() && !elsewhere
        };
        if let Some(other) = vips.iter().take(number).find(clashes) {
            let problem = format!("virtual IP {} already has VRID {vrid}", other.address);
            let remedy = "give each virtual IP another VRID, or leave it out and Windlass chooses one";
            return Err(list.item(number).field("vrid").mistake(text, problem, remedy));
        }
    }
    Ok(())
}

fn vrid(field: &Field<'_>, text: &Text) -> Result<Vrid, SettingsError> {
    let value: u8 = number(field, text, &(1..=255))?;
    Vrid::new(value).map_err(|error| field.mistake(text, error, "leave it out and Windlass chooses one"))
}

fn advert_interval(field: &Field<'_>, text: Option<&Text>) -> Result<Interval, SettingsError> {
    let default = Given::by_flag(DEFAULT_ADVERT_INTERVAL_MS.to_string());
    let text = text.unwrap_or(&default);
    let value: u32 = number(field, text, &(10..=40_950))?;
    Interval::from_millis(value).map_err(|error| field.mistake(text, error, "use 10 to 40950 in steps of 10"))
}

fn peers(
    field: &Field<'_>,
    given: Option<&Given<Vec<Text>>>,
    address: IpAddr,
    virtual_ips: &BTreeSet<IpAddr>,
) -> Result<BTreeSet<IpAddr>, SettingsError> {
    let mut peers = BTreeSet::new();
    for (number, text) in given.iter().flat_map(|given| &given.value).enumerate() {
        let field = field.item(number);
        let example = if address.is_ipv4() { "192.0.2.12" } else { "2001:db8::12" };
        let peer = unicast(&field, text, example)?;
        if virtual_ips.contains(&peer) {
            let remedy = "give the node's own address";
            return Err(field.mistake(text, format!("{peer} is a virtual IP"), remedy));
        }
        if peer.is_ipv4() != address.is_ipv4() {
            let problem =
                format!("{peer} is {}, and virtual IP {address} is {}", family(peer), family(address));
            return Err(field.mistake(
                text,
                problem,
                format!("name peers of the virtual IP's family, as {example}"),
            ));
        }
        if !peers.insert(peer) {
            return Err(field.mistake(text, format!("{peer} is named twice"), "name it once"));
        }
    }
    Ok(peers)
}

/// The ports that are given; else those that its checks ask on this host; else the one that its backends have in common.
fn ports(
    field: &Field<'_>,
    given: &Given<VipDraft>,
    checks: &[CheckSettings],
    balance: Option<&BalanceSettings>,
) -> Result<BTreeSet<u16>, SettingsError> {
    let list = field.field("ports");
    let mut ports = BTreeSet::new();
    for (number, text) in given.value.ports.iter().flat_map(|ports| &ports.value).enumerate() {
        ports.insert(port(&list.item(number), text)?);
    }
    if ports.is_empty() {
        ports.extend(checks.iter().filter_map(|check| match &check.kind {
            CheckKind::Server { target, .. } => target.is_this_host().then_some(target.port),
            CheckKind::Command(_) => None,
        }));
    }
    if ports.is_empty() {
        let of_backends: BTreeSet<u16> =
            balance.iter().flat_map(|balance| &balance.backends).map(std::net::SocketAddr::port).collect();
        ports = if of_backends.len() == 1 { of_backends } else { ports };
    }
    let wrong = |problem: &str, remedy: &str| match &given.value.ports {
        Some(ports) => Err(list.mistake(ports, problem, remedy)),
        None => Err(list.mistake(given, problem, remedy)),
    };
    if ports.is_empty() {
        let problem = "no port is given, and no check asks one on this host";
        return wrong(problem, "name the port to serve, as 6443");
    }
    if balance.is_some() && ports.len() > 1 {
        let all = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        return wrong(
            &format!("connections to ports {all} would go to the same port of a backend"),
            "balance one port",
        );
    }
    Ok(ports)
}
