//! What happens to an allocator, at random, in a small world: few addresses, few owners, few keys.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::model::Service;
use super::*;
use crate::Order;

/// One thing that happens.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Give { owner: Service, request: Request, release: bool },
    Adopt { owner: Service, address: IpAddr, terms: Terms, together: bool },
    Release { owner: Service, address: IpAddr },
    Disown { owner: Service, address: IpAddr },
    SetTerms { owner: Service, terms: Terms },
    Quarantine { address: IpAddr, entry: Quarantined<Service> },
    Lift { address: IpAddr },
    Abandon { address: IpAddr, is_abandoned: bool },
    Tick { milliseconds: u64 },
    Replace(Vec<Pool>),
}

/// IPv4 addresses around an end of 256, IPv6 addresses around one of 16.
fn address_at(offset: u8) -> IpAddr {
    if offset < 24 {
        std::net::Ipv4Addr::from_bits(0xc000_02f4 + u32::from(offset)).into()
    } else {
        std::net::Ipv6Addr::from_bits((0x2001_0db8 << 96) + u128::from(offset)).into()
    }
}

fn address() -> impl Strategy<Value = IpAddr> {
    (0..40u8).prop_map(address_at)
}

fn service() -> impl Strategy<Value = Service> {
    (0..6u8, 0..5u8).prop_map(|(name, made)| Service { name, made: made / 4 })
}

fn namespace() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just("ns".to_owned()), 1 => Just("other".to_owned())]
}

fn terms() -> impl Strategy<Value = Terms> {
    let key = prop_oneof![2 => Just(None), 3 => Just(Some("web")), 1 => Just(Some("mail"))];
    let with = vec(namespace(), 0..2);
    let ports = vec(1..5u16, 0..3);
    (namespace(), key, with, ports, option::weighted(0.2, 0..2u8)).prop_map(
        |(namespace, key, with, ports, local)| Terms {
            namespace,
            ports: ports.into_iter().map(|number| Port { protocol: Protocol::Tcp, number }).collect(),
            traffic: local
                .map_or(TrafficPolicy::Cluster, |pods| TrafficPolicy::Local { selector: pods.to_string() }),
            sharing: key.map(|key| Sharing { key: key.into(), with: with.into_iter().collect() }),
        },
    )
}

fn families() -> impl Strategy<Value = Families> {
    let reversed = [Family::V6, Family::V4];
    prop_oneof![
        3 => Just(Families::Single(Family::V4)),
        1 => Just(Families::Single(Family::V6)),
        1 => Just(Families::Prefer(Family::ALL)),
        1 => Just(Families::Prefer(reversed)),
        1 => Just(Families::Require(Family::ALL)),
        1 => Just(Families::Require(reversed)),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    let addresses = prop_oneof![4 => Just(Vec::new()), 1 => vec(address(), 1..3)];
    let pool = option::weighted(0.2, 0..4u8);
    let count = prop_oneof![1 => Just(0u8), 20 => Just(1), 5 => 2..5u8];
    let preferred = vec(address(), 0..3);
    let inherited = vec(address(), 0..3);
    let kept = (any::<bool>(), vec(address(), 0..4));
    (families(), count, addresses, pool, preferred, terms(), kept, inherited).prop_map(
        |(
            families,
            count,
            addresses,
            pool,
            preferred,
            terms,
            (may_replace_unpooled, given_from_pool),
            inherited,
        )| Request {
            families,
            count,
            addresses,
            pool: pool.map(|index| format!("p{index}")),
            preferred,
            requester: crate::Requester { namespace: terms.namespace.clone(), ..Default::default() },
            terms,
            may_replace_unpooled,
            given_from_pool,
            inherited,
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let order = prop_oneof![Just(Order::Lowest), Just(Order::Highest), Just(Order::LeastRecentlyUsed)];
    let namespaces = prop_oneof![4 => Just(Vec::new()), 1 => vec(namespace(), 1..2)];
    let limit = || option::weighted(0.3, 1..5u32);
    let tenants = (limit(), limit(), prop::bool::weighted(0.3), 0..2u64);
    (
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.15),
        0..2i32,
        order,
        any::<bool>(),
        0..3u64,
        namespaces,
        tenants,
    )
        .prop_map(
            |(auto_assign, disabled, priority, order, avoid_class_c, quarantine, namespaces, tenants)| {
                let (per_namespace, per_owner, waits, stays) = tenants;
                Policy {
                    limits: crate::Limits { per_namespace, per_owner },
                    when_full: if waits { crate::WhenFull::Wait } else { crate::WhenFull::UseOthers },
                    namespace_quarantine: Duration::from_millis(stays * 50),
                    auto_assign,
                    disabled,
                    priority,
                    order,
                    avoid_class_c,
                    quarantine: Duration::from_millis(quarantine * 20),
                    namespaces: namespaces.into_iter().collect(),
                    ..Policy::default()
                }
            },
        )
}

fn ranges() -> impl Strategy<Value = crate::AddressSet> {
    vec((0..40u8, 0..10u8), 0..3).prop_map(|runs| {
        runs.into_iter().flat_map(|(first, more)| (first..=first + more).map(address_at)).collect()
    })
}

/// Some pools, `p0`, `p1`, … Now and then two of one name.
pub(super) fn pools() -> impl Strategy<Value = Vec<Pool>> {
    let reserved = prop_oneof![2 => Just(crate::AddressSet::default()), 1 => ranges()];
    vec((ranges(), reserved, policy(), 0..20u8), 0..4).prop_map(|pools| {
        let made = pools.into_iter().enumerate().map(|(index, (addresses, reserved, policy, twice))| Pool {
            name: format!("p{}", if twice == 0 { 0 } else { index }),
            addresses,
            reserved,
            policy,
        });
        made.collect()
    })
}

fn entry() -> impl Strategy<Value = Quarantined<Service>> {
    (vec(service(), 0..3), 0..200u64, any::<bool>(), any::<bool>()).prop_map(
        |(former, until, released, is_abandoned)| Quarantined {
            former,
            until: Moment(until),
            reason: if released { QuarantineCause::Released } else { QuarantineCause::AddressTaken },
            is_abandoned,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (service(), request(), prop::bool::weighted(0.8))
            .prop_map(|(owner, request, release)| Step::Give { owner, request, release }),
        1 => (service(), address(), terms(), any::<bool>())
            .prop_map(|(owner, address, terms, together)| Step::Adopt { owner, address, terms, together }),
        3 => (service(), address()).prop_map(|(owner, address)| Step::Release { owner, address }),
        1 => (service(), address()).prop_map(|(owner, address)| Step::Disown { owner, address }),
        1 => (service(), terms()).prop_map(|(owner, terms)| Step::SetTerms { owner, terms }),
        1 => (address(), entry()).prop_map(|(address, entry)| Step::Quarantine { address, entry }),
        1 => address().prop_map(|address| Step::Lift { address }),
        2 => (address(), prop::bool::weighted(0.8))
            .prop_map(|(address, is_abandoned)| Step::Abandon { address, is_abandoned }),
        1 => (0..50u64).prop_map(|milliseconds| Step::Tick { milliseconds }),
        1 => pools().prop_map(Step::Replace),
    ]
}

/// What happens, in order.
pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..60)
}
