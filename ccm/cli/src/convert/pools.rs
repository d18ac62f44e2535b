//! Pools of MetalLB as `VirtualIPPool`s.

use windlass_api::{AvoidReserved, VirtualIPPoolSpec};

use super::metallb::{Advertisement, Allocation, MetalLbObjects, PROGRAM, Pool, Protocol};
use super::objects::Input;
use super::write::{Draft, Listed};
use super::{Conversion, announcements};

/// The last `spec.priority` there is.
const LAST: i32 = 1_000_000;

/// Converts the pools in `text`, and how they were announced.
pub(super) fn convert(text: &str) -> Conversion {
    let input = Input::read(text, PROGRAM.name);
    let MetalLbObjects { pools, advertisements, classes } = &MetalLbObjects::read(&input);
    let mut converted = Vec::new();
    let unordered = last_priority(pools);
    for pool in pools {
        let mut draft = draft(pool, unordered);
        let protocols = protocols(pool, advertisements);
        let is_bgp_alone = protocols.contains(&Protocol::Bgp) && !protocols.contains(&Protocol::Layer2);
        draft.spec.auto_assign &= !is_bgp_alone;
        let Some(name) = pool.place.pool(draft) else { continue };
        if is_bgp_alone {
            pool.place.is_bgp_alone("only BGP announces it");
        } else if protocols.contains(&Protocol::Bgp) {
            pool.place.warn(
                "BGP announces it as well, which Windlass does not speak: clients outside of the subnet need a route to it",
            );
        } else if protocols.is_empty() && !advertisements.is_empty() {
            pool.place.warn(
                "no advertisement of MetalLB names it, so MetalLB did not announce it; Windlass announces every pool. Set \
                 spec.disabled: true in the VirtualIPPool to assign no address of it",
            );
        }
        converted.push((pool, name));
    }
    announcements::convert(&converted, advertisements, &input.writer);
    input.finish(&PROGRAM, classes)
}

/// Returns the protocols by which MetalLB announces a pool. The pool's own counts beside those of advertisements.
fn protocols(pool: &Pool<'_>, advertisements: &[Advertisement<'_>]) -> Vec<Protocol> {
    let of_others = advertisements.iter().filter(|one| one.announces(pool)).map(|one| one.protocol);
    pool.protocol.into_iter().chain(of_others).collect()
}

/// Returns the priority for pools without one, so that they come after those with one. Among equal priorities the pools that select their
/// Services come first, as with MetalLB, so the default is often enough.
fn last_priority(pools: &[Pool<'_>]) -> i32 {
    let default = VirtualIPPoolSpec::default().priority;
    let highest = pools.iter().filter_map(|pool| Some(pool.allocation.as_ref()?.priority)).max();
    if highest.is_some_and(|highest| highest >= i64::from(default)) { LAST } else { default }
}

fn draft(pool: &Pool<'_>, unordered: i32) -> Draft {
    let allocation = pool.allocation.clone().unwrap_or_default();
    let listed = pool.addresses.iter().enumerate().map(|(index, text)| Listed {
        field: format!("spec.addresses[{index}]"),
        text: text.clone(),
        without_ends: false,
    });
    let avoid_reserved =
        if pool.avoid_buggy_ips { AvoidReserved::SubnetAndClassC } else { AvoidReserved::None };
    Draft {
        name: pool.name.clone(),
        listed: listed.collect(),
        ends_usable: pool.avoid_buggy_ips,
        restrictions: "spec.serviceAllocation",
        spec: VirtualIPPoolSpec {
            auto_assign: pool.auto_assign,
            avoid_reserved,
            priority: priority(pool, &allocation, unordered),
            namespaces: allocation.namespaces,
            namespace_selectors: allocation.namespace_selectors,
            service_selectors: allocation.service_selectors,
            ..VirtualIPPoolSpec::default()
        },
    }
}

fn priority(pool: &Pool<'_>, allocation: &Allocation, unordered: i32) -> i32 {
    let field = "spec.serviceAllocation.priority";
    match i32::try_from(allocation.priority) {
        Ok(0) => unordered,
        Ok(priority) if (1..LAST).contains(&priority) => priority,
        Ok(_) | Err(_) => {
            let nearest = if allocation.priority < 0 { 0 } else { LAST - 1 };
            pool.place.warn(format!(
                "{field} is {}, and a VirtualIPPool has 0 to {LAST}: it became {nearest}; check the order of the pools",
                allocation.priority
            ));
            nearest
        }
    }
}
