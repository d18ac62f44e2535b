//! The values that several fields have.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::given::{Field, SettingsError, Text, shown};

/// A whole number in this range.
pub(super) fn number<T: TryFrom<u64>>(
    field: &Field<'_>,
    text: &Text,
    range: &RangeInclusive<u64>,
) -> Result<T, SettingsError> {
    let remedy = || format!("use {} to {}", range.start(), range.end());
    let value = shown(&text.value);
    if text.value.is_empty() || !text.value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(field.mistake(text, format!("{value} is not a whole number"), remedy()));
    }
    let number = text.value.parse().ok().filter(|number| range.contains(number));
    number
        .and_then(|number: u64| T::try_from(number).ok())
        .ok_or_else(|| field.mistake(text, format!("{value} is out of range"), remedy()))
}

/// `true` or `false`; the default where nothing is given.
pub(super) fn flag(field: &Field<'_>, text: Option<&Text>, default: bool) -> Result<bool, SettingsError> {
    match text {
        None => Ok(default),
        Some(text) => match text.value.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(field.mistake(
                text,
                format!("{} is neither true nor false", shown(other)),
                "use one of the two",
            )),
        },
    }
}

/// A path that begins with `/`: the process has no folder of its own.
pub(super) fn absolute_path(field: &Field<'_>, text: &Text) -> Result<PathBuf, SettingsError> {
    let path = PathBuf::from(&text.value);
    if path.is_absolute() && !text.value.contains('\0') {
        return Ok(path);
    }
    Err(field.mistake(text, format!("{} is not an absolute path", shown(&text.value)), "begin it with /"))
}

/// The address of a machine, as packets can have it.
pub(super) fn unicast(field: &Field<'_>, text: &Text, example: &str) -> Result<IpAddr, SettingsError> {
    let value = shown(&text.value);
    let no_address =
        || field.mistake(text, format!("{value} is not an IP address"), format!("write it as {example}"));
    let address: IpAddr = text.value.parse().map_err(|_| no_address())?;
    match unusable(address) {
        None => Ok(address),
        Some(why) => Err(field.mistake(
            text,
            format!("{value} is {why}"),
            format!("use a unicast address of the LAN, as {example}"),
        )),
    }
}

/// Returns the reason why no packet on a network can be meant for one machine by this address.
pub(super) fn unusable(address: IpAddr) -> Option<&'static str> {
    if address.is_unspecified() {
        return Some("the unspecified address");
    }
    if address.is_loopback() {
        return Some("a loopback address");
    }
    if address.is_multicast() {
        return Some("a multicast address");
    }
    match address {
        IpAddr::V4(v4) if v4.is_broadcast() => Some("the broadcast address"),
        IpAddr::V4(v4) if v4.octets()[0] == 0 => Some("an address of this network (0.0.0.0/8)"),
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some("an IPv4 address written as IPv6"),
        IpAddr::V4(_) | IpAddr::V6(_) => None,
    }
}

/// `IPv4` or `IPv6`.
pub(super) fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// The port in it.
pub(super) fn port(field: &Field<'_>, text: &Text) -> Result<u16, SettingsError> {
    number(field, text, &(1..=u64::from(u16::MAX)))
}

/// The name of an interface, as the kernel takes it (`dev_valid_name`).
pub(super) fn interface(field: &Field<'_>, text: &Text) -> Result<String, SettingsError> {
    let name = &text.value;
    let is_legal = (1..16).contains(&name.len())
        && ![".", ".."].contains(&name.as_str())
        && !name.chars().any(|c| c.is_whitespace() || c == '/' || c == ':' || c == '\0');
    if is_legal {
        return Ok(name.clone());
    }
    let problem = format!("{} is not an interface name", shown(name));
    Err(field.mistake(text, problem, "give a name that `ip link` shows"))
}
