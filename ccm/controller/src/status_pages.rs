//! Interface to the pages that show the state of this controller. Another crate makes them: it depends on this one, and not the reverse.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Service};
use windlass_api::{Announcement, NodeNetwork, VirtualIP, VirtualIPPool, VirtualRouter};
use windlass_ccm::lease::ElectionOptions;
use windlass_ccm::serving::Pages;

use crate::allocation::settings::Settings;
use crate::state::shared::SharedState;
use crate::stores::Stores;

/// Makes the pages of [`Windlass::with_status_pages`](crate::Windlass::with_status_pages).
pub trait StatusPages: Send + Sync {
    /// Returns the pages. They are served from the start of the process, also while it does not lead.
    fn pages(&self) -> Pages;

    /// Receives the state when this process begins to lead. The pages show it as long as it lives. `election` is the election by which
    /// the process leads; `None` if it leads without one.
    fn show(&self, state: &Arc<SharedState>, election: Option<&ElectionOptions>);
}

/// Objects that the controller watches, and the settings by which it reads them.
#[derive(Debug)]
pub struct WatchedObjects {
    /// The admin's settings.
    pub settings: Settings,
    /// Time at which the objects were collected.
    pub now: Timestamp,
    /// Services.
    pub services: Vec<Arc<Service>>,
    /// Nodes.
    pub nodes: Vec<Arc<Node>>,
    /// Pools.
    pub pools: Vec<Arc<VirtualIPPool>>,
    /// Announcements.
    pub announcements: Vec<Arc<Announcement>>,
    /// Virtual IPs.
    pub vips: Vec<Arc<VirtualIP>>,
    /// Virtual routers.
    pub routers: Vec<Arc<VirtualRouter>>,
    /// Reports of the nodes.
    pub networks: Vec<Arc<NodeNetwork>>,
}

impl SharedState {
    /// Returns the objects; `None` if not every list is complete. The state is locked only to count references, not to copy objects.
    pub fn objects(&self) -> Option<WatchedObjects> {
        let state = self.state();
        if !state.allocation.is_ready() {
            return None;
        }
        let Stores { pools, announcements, vips, routers, networks, services, nodes, .. } = &state.stores;
        Some(WatchedObjects {
            settings: state.allocation.settings(),
            now: state.clock.now(),
            services: services.list(),
            nodes: nodes.list(),
            pools: pools.iter().cloned().collect(),
            announcements: announcements.iter().cloned().collect(),
            vips: vips.iter().cloned().collect(),
            routers: routers.iter().cloned().collect(),
            networks: networks.iter().cloned().collect(),
        })
    }
}
