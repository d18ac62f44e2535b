//! Settings of interfaces: which ones the devices and their parents need, and how they are read.
//!
//! | interface | setting | why |
//! |---|---|---|
//! | parent, of IPv4 devices | `arp_ignore` 1, unless it is 1, 2 or 8 | it would answer ARP for the VIPs with its own MAC address |
//! | parent, of IPv4 devices | `arp_announce` 2 | its ARP requests would say that a VIP is at its own MAC address |
//! | device | `arp_ignore` 8 | the engine answers |
//! | device | `rp_filter` 2 | what comes by it is answered by the parent |
//! | device | `forwarding` of the parent | it is the parent's traffic |
//! | device, IPv4 | `disable_ipv6` 1, where /proc/sys can be written | it has no business there |
//! | device, IPv6 | `accept_ra` 0, unless advertisements are ignored anyway | it would get the default route |

use std::fs;
use std::io;

use windlass_vrrp::Family;

use super::device::SavedSettings;
use super::messages::Setting;

const CONF_V4: &str = "/proc/sys/net/ipv4/conf";
const CONF_V6: &str = "/proc/sys/net/ipv6/conf";

/// ARP settings of a parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ArpSettings {
    pub(super) ignore: u32,
    pub(super) announce: u32,
}

impl ArpSettings {
    /// As it is. The interface may have been renamed meanwhile, or may be gone.
    pub(super) fn read(interface: &str) -> Result<Self, String> {
        Ok(Self { ignore: number(interface, "arp_ignore")?, announce: number(interface, "arp_announce")? })
    }

    /// Returns the changes to be made, and the values before them.
    pub(super) fn required_changes(self) -> (Vec<(Setting, u32)>, SavedSettings) {
        let mut changes = Vec::new();
        let mut saved = SavedSettings::default();
        if !matches!(self.ignore, 1 | 2 | 8) {
            changes.push((Setting::ArpIgnore, 1));
            saved.arp_ignore = Some(self.ignore);
        }
        if self.announce != 2 {
            changes.push((Setting::ArpAnnounce, 2));
            saved.arp_announce = Some(self.announce);
        }
        (changes, saved)
    }

    /// Returns the changes that restore the `saved` values. A value that another process has set since is left alone.
    pub(super) fn restored(self, saved: SavedSettings) -> Vec<(Setting, u32)> {
        let ignore = saved.arp_ignore.filter(|_| self.ignore == 1).map(|value| (Setting::ArpIgnore, value));
        let announce =
            saved.arp_announce.filter(|_| self.announce == 2).map(|value| (Setting::ArpAnnounce, value));
        ignore.into_iter().chain(announce).collect()
    }
}

/// Returns the settings of a device.
pub(super) fn of_device(parent: &str) -> Result<Vec<(Setting, u32)>, String> {
    let forwarding = number(parent, "forwarding")?;
    Ok(vec![(Setting::ArpIgnore, 8), (Setting::RpFilter, 2), (Setting::Forwarding, forwarding)])
}

/// Sets the device so that router advertisements received by it change no routes.
pub(super) fn ignore_router_advertisements(device: &str, family: Family) -> Result<(), String> {
    let path = |name: &str| format!("{CONF_V6}/{device}/{name}");
    match family {
        Family::V4 if fs::write(path("disable_ipv6"), "1").is_ok() => return Ok(()),
        Family::V4 | Family::V6 => {}
    }
    let read = |name: &str| fs::read_to_string(path(name)).map(|value| value.trim().to_owned());
    let (accepts, forwards) = match (read("accept_ra"), read("forwarding")) {
        (Ok(accepts), Ok(forwards)) => (accepts, forwards),
        // No IPv6 at all.
        (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        (Err(error), _) | (_, Err(error)) => {
            return Err(format!("cannot read {}: {error}", path("accept_ra")));
        }
    };
    let heeded = accepts == "2" || (accepts == "1" && forwards == "0");
    if !heeded {
        return Ok(());
    }
    fs::write(path("accept_ra"), "0").map_err(|error| {
        format!(
            "cannot write {}: {error}: router advertisements would lead this node's traffic astray; set \
             net.ipv6.conf.default.accept_ra=0 on the node, or let the engine write /proc/sys/net (Kubernetes: \
             securityContext.privileged: true)",
            path("accept_ra")
        )
    })
}

fn number(interface: &str, name: &str) -> Result<u32, String> {
    let path = format!("{CONF_V4}/{interface}/{name}");
    let value = fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    value.trim().parse().map_err(|_| format!("{path} is no number: {value}"))
}
