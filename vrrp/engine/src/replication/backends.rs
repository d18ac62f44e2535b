//! Backends that live on this node, by its routes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use windlass_kernel::netlink::{Hop, NetlinkError, RouteSocket, Way};

/// Distinguishes backends on this node from others.
#[derive(Default)]
pub(super) struct Backends {
    /// Opened when it is first asked.
    routes: Option<RouteSocket>,
    /// The interfaces by which peers are reached.
    segments: BTreeSet<u32>,
}

impl Backends {
    /// Sets the interfaces by which peers are reached.
    pub(super) fn set_segments(&mut self, segments: BTreeSet<u32>) {
        self.segments = segments;
    }

    /// Returns the backends that live here: they are reached by another interface than peers are, and not by way of another host,
    /// as those beyond an overlay network are. A backend that has no route, or is not known, does not.
    pub(super) fn here(&mut self, backends: impl IntoIterator<Item = IpAddr>) -> BTreeSet<IpAddr> {
        let mut found: BTreeMap<IpAddr, bool> = BTreeMap::new();
        for backend in backends {
            found.entry(backend).or_insert_with(|| self.is_here(backend));
        }
        found.into_iter().filter(|(_, is_here)| *is_here).map(|(backend, _)| backend).collect()
    }

    fn is_here(&mut self, backend: IpAddr) -> bool {
        let routes = match self.routes.take().map_or_else(RouteSocket::open, Ok) {
            Ok(routes) => self.routes.insert(routes),
            Err(error) => {
                tracing::debug!(%error, "cannot ask by which interface backends are reached");
                return false;
            }
        };
        match is_here(routes, backend, &self.segments) {
            Ok(is_here) => is_here,
            Err(error) => {
                tracing::debug!(%error, %backend, "cannot ask by which interface it is reached");
                self.routes = None;
                false
            }
        }
    }
}

fn is_here(
    routes: &mut RouteSocket,
    backend: IpAddr,
    segments: &BTreeSet<u32>,
) -> Result<bool, NetlinkError> {
    Ok(match routes.way_towards(backend)? {
        Some(Way::By(Hop { interface, .. })) if segments.contains(&interface) => false,
        Some(Way::ThisNode | Way::By(Hop { gateway: None, .. })) => true,
        // Some pod networks have this node itself as the gateway to its pods.
        Some(Way::By(Hop { gateway: Some(gateway), .. })) => {
            routes.way_towards(gateway)? == Some(Way::ThisNode)
        }
        None => false,
    })
}
