//! State of the wanted interfaces, and their sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use windlass_kernel::interfaces::{InterfaceInfo, Interfaces};
use windlass_kernel::sockets::{LinkSockets, Memberships};

use super::Groups;
use crate::checks::interface_error;
use crate::link_state::{LinkState, Sources};

/// Watched interfaces, and the sockets that are to be closed.
#[derive(Default)]
pub(super) struct LinkWatcher {
    links: BTreeMap<String, WatchedLink>,
    /// Sockets that are no longer used, until the timer thread has released them: closing may wait, so it is done here.
    retired: Vec<Arc<LinkSockets>>,
    /// Interfaces that the timer thread may still know from reports.
    named: BTreeSet<String>,
}

#[derive(Default)]
struct WatchedLink {
    sockets: Option<Arc<LinkSockets>>,
    /// The kernel refused something that may work later.
    refused: bool,
    /// Last report: the source addresses or the reason.
    reported: Option<Result<Sources, String>>,
}

impl LinkWatcher {
    /// Updates the interfaces of these names and their sockets. Returns those whose state has changed, with their state.
    pub(super) fn update(&mut self, wanted: &Groups, table: &Interfaces) -> Vec<(String, LinkState)> {
        self.named.retain(|name| self.links.contains_key(name));
        self.named.extend(wanted.keys().cloned());
        let mut changed = Vec::new();
        let memberships = Memberships::read();
        let unwanted: Vec<String> =
            self.links.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for name in unwanted {
            if let Some(known) = self.links.remove(&name) {
                self.retired.extend(known.sockets);
            }
            changed.push((name, LinkState::Unwanted));
        }
        for old in &self.retired {
            old.leave_lost(&memberships);
        }
        // The kernel's list is read in pieces, and what others leave meanwhile may hide an entry: looked at twice.
        let is_deaf =
            |sockets: &LinkSockets| sockets.is_deaf(&memberships) && sockets.is_deaf(&Memberships::read());
        for (name, groups) in wanted {
            let known = self.links.entry(name.clone()).or_default();
            let found = table.get(name);
            // Sockets are bound to an index: an interface made anew under the old name needs new ones.
            let replaced = known.sockets.take_if(|sockets| {
                found.as_ref().is_none_or(|info| (info.index, info.mac) != (sockets.index, sockets.mac))
                    || is_deaf(sockets)
            });
            let sockets_replaced = replaced.is_some();
            if let Some(old) = &replaced {
                old.leave_lost(&memberships);
            }
            self.retired.extend(replaced);
            if let Some(state) = known.update(name, found.as_ref(), groups, sockets_replaced) {
                changed.push((name.clone(), state));
            }
        }
        self.retired.retain(|sockets| Arc::strong_count(sockets) > 1);
        changed
    }

    /// Has the next update report every interface, also those whose last report was lost with a round that was not completed.
    pub(super) fn report_anew(&mut self) {
        for name in &self.named {
            self.links.entry(name.clone()).or_default();
        }
        self.links.values_mut().for_each(|known| known.reported = None);
    }

    /// Returns true if there is something to look at even if nothing changes.
    pub(super) fn needs_retry(&self) -> bool {
        !self.retired.is_empty() || self.links.values().any(|known| known.refused)
    }
}

impl WatchedLink {
    /// Opens what is missing and returns the new state if it is another than was reported, or if the sockets were replaced.
    fn update(
        &mut self,
        name: &str,
        found: Option<&InterfaceInfo>,
        groups: &BTreeSet<IpAddr>,
        sockets_replaced: bool,
    ) -> Option<LinkState> {
        self.refused = false;
        let (reported, state) = match (interface_error(name, found), found) {
            (None, Some(info)) => self.usable(name, info),
            (Some(reason), _) => (Err(reason.clone()), LinkState::Unusable(reason)),
            // `interface_error` reports a missing interface.
            (None, None) => return None,
        };
        let adjusted = match (&self.sockets, found) {
            (Some(sockets), Some(info)) => {
                let completed = sockets.complete();
                let joined = sockets.listen_to(groups);
                self.refused = sockets.is_incomplete();
                sockets.set_mtu(mtu(info)) || joined || completed
            }
            (Some(_), None) | (None, Some(_) | None) => false,
        };
        if !sockets_replaced && !adjusted && self.reported.as_ref() == Some(&reported) {
            return None;
        }
        self.reported = Some(reported);
        Some(state)
    }

    fn usable(&mut self, name: &str, info: &InterfaceInfo) -> (Result<Sources, String>, LinkState) {
        let opened = match self.sockets.take() {
            Some(sockets) => Ok(sockets),
            None => open(name, info),
        };
        match opened {
            Ok(sockets) => {
                let sources = sources(info);
                self.sockets = Some(Arc::clone(&sockets));
                (Ok(sources.clone()), LinkState::Usable { sockets, sources })
            }
            Err(reason) => {
                self.refused = true;
                (Err(reason.clone()), LinkState::Unusable(reason))
            }
        }
    }
}

fn open(name: &str, info: &InterfaceInfo) -> Result<Arc<LinkSockets>, String> {
    let opened = LinkSockets::open(name, info.index, info.mac, mtu(info));
    opened.map(Arc::new).map_err(|error| format!("interface {name}: {error}"))
}

fn mtu(info: &InterfaceInfo) -> usize {
    usize::try_from(info.mtu).unwrap_or(usize::MAX)
}

fn sources(info: &InterfaceInfo) -> Sources {
    Sources { usable: info.addresses().collect(), unusable: info.ipv6_unusable.clone() }
}
