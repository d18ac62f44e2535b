//! The virtual router that a VIP can name from the moment it is made, so that it is not written a second time to name it.

use std::collections::BTreeMap;

use windlass_api::VirtualIP;

use super::{Choice, Input, Planner};

/// The virtual router that the plan would give to `vip`, which is about to be made and whose Services have no other VIP of
/// its family. `None` where one would have to be made, or would change by it: the planner sees to that. Of `input` the
/// VIPs are not looked at; `loads` says how many VIPs each router carries.
pub(crate) fn carrier_of_new(
    input: &Input,
    loads: &BTreeMap<String, usize>,
    vip: &VirtualIP,
) -> Option<String> {
    let mut planner = Planner::new(input);
    for (name, router) in &mut planner.routers {
        router.vips = loads.get(name).copied().unwrap_or(0);
    }
    let pool = input.pools.get(&vip.spec.pool)?;
    let segment = planner.segment(vip, pool).ok()?;
    let venue = planner.venue(segment, pool);
    match planner.choose(vip, pool, &venue) {
        // One that carries nothing is about to be removed.
        Choice::Router(name) => {
            planner.routers.get(&name).is_some_and(|router| router.vips > 0).then_some(name)
        }
        Choice::Made(_) | Choice::NoVrid => None,
    }
}
