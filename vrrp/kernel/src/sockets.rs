//! The sockets of an interface.
//!
//! | socket | receives | sends | used by |
//! |---|---|---|---|
//! | `adverts`, for each family | adverts of configured VRIDs from candidates (BPF) | adverts, IP header included | timer thread |
//! | `frames` | nothing | adverts from the virtual router MAC address | timer thread |
//! | `foreign`, for each family | all other adverts (BPF) | nothing | neighbour thread |
//! | `neighbour` | ARP, neighbour discovery | ARP, neighbour discovery | neighbour thread |
//! | [`UnicastSocket`] of each device with a virtual router MAC address | ARP or neighbour discovery to it | nothing | neighbour thread |
//! | [`PathSocket`] | tests of the paths between nodes that share addresses | the same | sharing thread |
//!
//! A flood of foreign adverts so never reaches the timer thread.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use windlass_vrrp::{Family, wire};

mod adverts;
mod counters;
mod filter;
mod frames;
mod mac;
mod memberships;
mod neighbour;
mod path;

pub use adverts::{AdvertSender, AdvertSocket, ReceiveBuffer};
pub use counters::LinkCounters;
pub use filter::{AdvertFilter, VridSet, last_word};
pub use frames::FrameSocket;
pub use mac::{Mac, group_mac, group_mac_v6};
pub use memberships::Memberships;
pub use neighbour::{NeighbourSocket, UnicastSocket};
pub use path::PathSocket;

/// The sockets of one interface. Opening and closing them and joining groups may wait in the kernel (for the routing lock,
/// for RCU): not on the timer thread.
#[derive(Debug)]
pub struct LinkSockets {
    /// No others of this process have or had it.
    pub serial: u64,
    /// Name of the interface.
    pub name: String,
    /// Index of the interface.
    pub index: u32,
    /// Link-layer address of the interface.
    pub mac: Mac,
    mtu: AtomicUsize,
    v4: FamilyState,
    v6: FamilyState,
    /// Sends adverts from the virtual router MAC address.
    pub frames: FrameSocket,
    /// Receives and sends ARP and neighbour discovery.
    pub neighbour: NeighbourSocket,
    /// Counters of what was refused.
    pub counters: Arc<LinkCounters>,
    /// Groups other than the default ones: joined, or the reason why not.
    groups: ArcSwap<BTreeMap<IpAddr, Result<(), String>>>,
}

/// The raw sockets of one family, or the reason why there are none so far.
#[derive(Debug, Default)]
struct FamilyState {
    sockets: OnceLock<FamilySockets>,
    refusal: ArcSwap<String>,
}

/// The raw sockets of one family.
#[derive(Debug)]
pub struct FamilySockets {
    /// Receives adverts of configured VRIDs.
    pub adverts: AdvertSocket,
    /// Sends adverts.
    pub sender: AdvertSender,
    /// Receives all other adverts.
    pub foreign: AdvertSocket,
    /// True if the kernel reported the membership when it was new: only then can its loss be detected.
    verifiable: bool,
}

/// A step of opening them that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub struct OpenError {
    what: &'static str,
    source: io::Error,
}

impl LinkSockets {
    /// Opens them. A family that the kernel refuses leaves the other one usable: see [`Self::complete`].
    pub fn open(interface: &str, index: u32, mac: Mac, mtu: usize) -> Result<Self, OpenError> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let step = |what| move |source| OpenError { what, source };
        let sockets = Self {
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            name: interface.to_owned(),
            index,
            mac,
            mtu: AtomicUsize::new(mtu),
            v4: FamilyState::default(),
            v6: FamilyState::default(),
            frames: FrameSocket::open(index).map_err(step("open the packet socket that sends adverts"))?,
            neighbour: NeighbourSocket::open(index)
                .map_err(step("open the packet sockets for ARP and neighbour discovery"))?,
            counters: Arc::default(),
            groups: ArcSwap::default(),
        };
        sockets.complete();
        Ok(sockets)
    }

    /// Tries again to open what the kernel refused (as IPv6 on an interface with an MTU below 1,280 bytes); returns true if the
    /// result differs from before. May wait.
    pub fn complete(&self) -> bool {
        let mut changed = false;
        for family in [Family::V4, Family::V6] {
            let family_state = self.family_state(family);
            if family_state.sockets.get().is_none() {
                changed |= family_state.try_open(&self.name, self.index, family);
            }
        }
        changed
    }

    /// Returns true if the kernel refuses a family or a group.
    pub fn is_incomplete(&self) -> bool {
        let groups = self.groups.load();
        self.families().count() < 2 || groups.values().any(Result::is_err)
    }

    /// Returns the raw sockets of a family, or the reason why there are none.
    pub fn family(&self, family: Family) -> Result<&FamilySockets, String> {
        let family_state = self.family_state(family);
        let refusal = || String::clone(&family_state.refusal.load());
        family_state.sockets.get().ok_or_else(refusal)
    }

    /// Returns true if the kernel has dropped the membership of a default group: only new sockets will receive adverts to it.
    pub fn is_deaf(&self, memberships: &Memberships) -> bool {
        self.deaf_families(memberships).next().is_some()
    }

    /// Leaves the groups whose memberships are lost, before other sockets join them: closing a socket ends a membership of its
    /// interface, whichever socket has it.
    pub fn leave_lost(&self, memberships: &Memberships) {
        let groups = self.groups.load();
        for (family, raw) in self.deaf_families(memberships) {
            let extra = groups.keys().copied().filter(|group| Family::of(*group) == family);
            for group in extra.chain([wire::default_group(family)]) {
                for socket in [&raw.adverts, &raw.foreign] {
                    // Fails where it was not joined.
                    let _ = socket.leave(group, self.index);
                }
            }
        }
    }

    fn deaf_families(&self, memberships: &Memberships) -> impl Iterator<Item = (Family, &FamilySockets)> {
        [Family::V4, Family::V6].into_iter().filter_map(|family| {
            let raw = self.family_state(family).sockets.get().filter(|raw| raw.verifiable)?;
            (!memberships.contains(self.index, wire::default_group(family))).then_some((family, raw))
        })
    }

    fn family_state(&self, family: Family) -> &FamilyState {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// The raw sockets there are.
    pub fn families(&self) -> impl Iterator<Item = &FamilySockets> {
        [&self.v4, &self.v6].into_iter().filter_map(|family_state| family_state.sockets.get())
    }

    /// Longest packet the interface carries.
    pub fn mtu(&self) -> usize {
        self.mtu.load(Ordering::Relaxed)
    }

    /// Sets the interface's MTU; returns true if it was another.
    pub fn set_mtu(&self, mtu: usize) -> bool {
        self.mtu.swap(mtu, Ordering::Relaxed) != mtu
    }

    /// Joins these groups and leaves others but the default ones; returns true if something changed. May wait.
    pub fn listen_to(&self, wanted: &BTreeSet<IpAddr>) -> bool {
        let extra = |group: &&IpAddr| **group != wire::default_group(Family::of(**group));
        let wanted: BTreeSet<IpAddr> = wanted.iter().filter(extra).copied().collect();
        let known = self.groups.load_full();
        let mut groups = BTreeMap::clone(&known);
        let mut changed = false;
        for (group, outcome) in known.as_ref() {
            if !wanted.contains(group) {
                if outcome.is_ok() {
                    // Closing the socket leaves them all.
                    let _ = self.each(*group, |socket, group| socket.leave(group, self.index));
                }
                groups.remove(group);
                changed = true;
            }
        }
        for group in wanted.iter().filter(|group| !matches!(known.get(group), Some(Ok(())))) {
            let outcome = self.each(*group, |socket, group| socket.join(group, self.index));
            changed |= known.get(group) != Some(&outcome);
            groups.insert(*group, outcome);
        }
        self.groups.store(Arc::new(groups));
        changed
    }

    /// Returns `Ok` if adverts to this group are received, else the reason; `None` while that is not settled.
    pub fn hears(&self, group: IpAddr) -> Option<Result<(), String>> {
        if group == wire::default_group(Family::of(group)) {
            return Some(Ok(()));
        }
        self.groups.load().get(&group).cloned()
    }

    fn each(
        &self,
        group: IpAddr,
        change: impl Fn(&AdvertSocket, IpAddr) -> io::Result<()>,
    ) -> Result<(), String> {
        let sockets = self.family(Family::of(group))?;
        change(&sockets.adverts, group).and_then(|()| change(&sockets.foreign, group)).map_err(|source| {
            format!(
                "interface {} cannot listen to group {group}: {source}; more than net.ipv4.igmp_max_memberships groups \
                 cannot be joined",
                self.name
            )
        })
    }
}

impl FamilyState {
    /// Tries to open the sockets; returns true if they are open now or refused for another reason than before.
    fn try_open(&self, interface: &str, index: u32, family: Family) -> bool {
        match FamilySockets::open(interface, index, family) {
            Ok(sockets) => self.sockets.set(sockets).is_ok(),
            Err(source) => {
                let reason = format!("interface {interface} cannot be used for {family}: {source}");
                let differs = **self.refusal.load() != reason;
                self.refusal.store(Arc::new(reason));
                differs
            }
        }
    }
}

impl FamilySockets {
    fn open(interface: &str, index: u32, family: Family) -> Result<Self, OpenError> {
        let step = |what| move |source| OpenError { what, source };
        let adverts = AdvertSocket::open(interface, index, family, &filter::nothing())
            .map_err(step("open the socket that receives adverts"))?;
        let verifiable = Memberships::read().contains(index, wire::default_group(family));
        Ok(Self {
            adverts,
            verifiable,
            sender: AdvertSender::open(interface, index, family)
                .map_err(step("open the socket that sends adverts"))?,
            foreign: AdvertSocket::open(
                interface,
                index,
                family,
                &filter::foreign(family, &AdvertFilter::NOTHING),
            )
            .map_err(step("open the socket that receives other routers' adverts"))?,
        })
    }

    /// Passes these adverts to the adverts socket from now on, and all others to the foreign socket.
    pub fn sort(&self, family: Family, own: &AdvertFilter) -> io::Result<()> {
        self.adverts.filter(&filter::own(family, own))?;
        self.foreign.filter(&filter::foreign(family, own))
    }
}

/// Priority of sent adverts: the highest that needs no capability, the first band of the default queueing discipline.
const SEND_PRIORITY: i32 = 6;

/// Returns true if an error means that there is nothing to read now.
pub fn is_empty(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
