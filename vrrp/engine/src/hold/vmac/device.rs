//! Names and marks of the devices with virtual router MAC addresses.

use std::fmt;
use std::str::FromStr;

use windlass_kernel::interfaces::OWN_ALIAS;
use windlass_kernel::netlink::Link;
use windlass_kernel::sockets::Mac;
use windlass_vrrp::{Family, Vrid};

/// Kind of the devices.
pub(super) const MACVLAN: &str = "macvlan";

/// The device of a virtual router.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::hold) struct DeviceId {
    /// Index of the interface on whose LAN the router is.
    pub(in crate::hold) parent: u32,
    pub(in crate::hold) family: Family,
    pub(in crate::hold) vrid: Vrid,
}

impl DeviceId {
    /// Returns its name: `wl4-2-7` for VRID 7 of IPv4 on the interface with index 2. At most 15 bytes, as the kernel requires; a name that
    /// is taken is refused by the kernel and reported.
    pub(super) fn name(self) -> String {
        let family = match self.family {
            Family::V4 => 4,
            Family::V6 => 6,
        };
        format!("wl{family}-{}-{}", self.parent % 10_000_000, self.vrid)
    }

    /// The virtual router's MAC address.
    pub(super) fn mac(self) -> Mac {
        self.vrid.mac(self.family)
    }

    /// Returns the device of an engine with this tag that an interface is; `None` if it is another's.
    pub(super) fn of(link: &Link, tag: u8) -> Option<Self> {
        mark_of(link, tag).and_then(|_| Self::like(link))
    }

    /// Returns the device that an interface is like, marked or not: the kernel does not report a mark while it is down.
    pub(super) fn like(link: &Link) -> Option<Self> {
        if link.kind.as_deref() != Some(MACVLAN) {
            return None;
        }
        let (parent, mac) = link.parent.zip(link.mac)?;
        let mut ids = [Family::V4, Family::V6].into_iter().filter_map(|family| {
            Some(Self { parent, family, vrid: Vrid::new(mac[5]).ok()? }).filter(|id| id.mac() == mac)
        });
        ids.next()
    }
}

/// The mark of an interface that an engine with this tag made, whatever became of it since.
pub(super) fn mark_of(link: &Link, tag: u8) -> Option<Mark> {
    let mark: Mark = link.alias.as_ref()?.parse().ok()?;
    (link.kind.as_deref() == Some(MACVLAN) && mark.tag == tag).then_some(mark)
}

/// Contents of a device's alias: its engine, and the previous settings of its parent, so that the leftovers of a killed engine can be
/// removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// Tag of the engine.
    pub(super) tag: u8,
    /// Previous settings of the parent.
    pub(super) saved: SavedSettings,
}

/// Settings of an interface as they were before the engine changed them; `None`: not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SavedSettings {
    pub(super) arp_ignore: Option<u32>,
    pub(super) arp_announce: Option<u32>,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OWN_ALIAS}{:02x}", self.tag)?;
        let SavedSettings { arp_ignore, arp_announce } = self.saved;
        if let Some(value) = arp_ignore {
            write!(f, " arp_ignore={value}")?;
        }
        if let Some(value) = arp_announce {
            write!(f, " arp_announce={value}")?;
        }
        Ok(())
    }
}

impl FromStr for Mark {
    type Err = ();

    fn from_str(alias: &str) -> Result<Self, ()> {
        let mut words = alias.strip_prefix(OWN_ALIAS).ok_or(())?.split(' ');
        let tag = words.next().filter(|tag| tag.len() == 2).ok_or(())?;
        let tag = u8::from_str_radix(tag, 16).map_err(|_| ())?;
        let mut saved = SavedSettings::default();
        for word in words {
            match word.split_once('=') {
                Some(("arp_ignore", value)) => saved.arp_ignore = value.parse().ok(),
                Some(("arp_announce", value)) => saved.arp_announce = value.parse().ok(),
                // Of another version of the engine.
                Some(_) | None => {}
            }
        }
        Ok(Self { tag, saved })
    }
}
