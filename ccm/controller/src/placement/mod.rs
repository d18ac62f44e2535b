//! Placement: the virtual router that carries each VIP, and the nodes that elect its owner.
//!
//! In: VIPs, Announcements, virtual routers, nodes, the networks that their agents report, and endpoints. Out: writes to VirtualRouters, to
//! `VirtualIP.spec.virtualRouter` and to the status of VIPs, pools and Announcements. [`plan`] decides, [`writes`] compares, [`apply`] is the
//! one task that writes; [`placement_state`] owns what is known beside the stores, and follows their changes.

mod announceability;
pub(crate) mod announcements;
pub(crate) mod apply;
pub(crate) mod endpoints;
mod mixed;
pub(crate) mod node_traits;
pub(crate) mod placement_state;
pub(crate) mod plan;
pub(crate) mod plan_input;
pub(crate) mod router_loads;
mod sharing;
pub(crate) mod status_throttle;
pub(crate) mod topology_cache;
pub(crate) mod writes;
