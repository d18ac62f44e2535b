//! The allocator against a model that keeps every address by itself, and rebuilt from what the cluster knows.

use proptest::prelude::*;

use super::*;

/// All the addresses the properties play with: two /28 and their neighbourhood.
const BASE: u32 = 0xc000_0200;

fn address(offset: u8) -> IpAddr {
    IpAddr::from(std::net::Ipv4Addr::from_bits(BASE + u32::from(offset)))
}

#[derive(Debug, Clone)]
enum Step {
    Allocate { owner: u8, pool: Option<u8>, address: Option<u8> },
    Adopt { owner: u8, address: u8 },
    Release { owner: u8, address: u8 },
    Replace(Vec<(u8, u8, bool)>),
}

fn step() -> impl Strategy<Value = Step> {
    let pools = prop::collection::vec((0..48u8, 0..10u8, any::<bool>()), 0..4);
    prop_oneof![
        6 => (0..12u8, prop::option::weighted(0.2, 0..3u8), prop::option::weighted(0.2, 0..60u8))
            .prop_map(|(owner, pool, address)| Step::Allocate { owner, pool, address }),
        1 => (0..12u8, 0..60u8).prop_map(|(owner, address)| Step::Adopt { owner, address }),
        4 => (0..12u8, 0..60u8).prop_map(|(owner, address)| Step::Release { owner, address }),
        1 => pools.prop_map(Step::Replace),
    ]
}

fn any<T: Arbitrary>() -> impl Strategy<Value = T> {
    proptest::arbitrary::any::<T>()
}

/// Pools as lists of single addresses, in the order of their names; holders as a plain list.
#[derive(Default)]
struct Model {
    pools: Vec<(String, Vec<u8>, bool)>,
    holders: Vec<(u8, u8)>,
}

impl Model {
    fn holder(&self, address: u8) -> Option<u8> {
        self.holders.iter().find(|held| held.0 == address).map(|held| held.1)
    }

    fn expected(&self, owner: u8, pool: Option<&str>, wanted: Option<u8>) -> Option<u8> {
        if let Some(name) = pool
            && !self.pools.iter().any(|p| p.0 == name)
        {
            return None;
        }
        let in_named =
            |a: u8| pool.is_none_or(|name| self.pools.iter().any(|p| p.0 == name && p.1.contains(&a)));
        if let Some(wanted) = wanted {
            let in_some = pool.is_some() || self.pools.iter().any(|p| p.1.contains(&wanted));
            return match self.holder(wanted) {
                Some(holder) => (holder == owner && in_named(wanted)).then_some(wanted),
                None => (in_named(wanted) && in_some).then_some(wanted),
            };
        }
        let kept = (0..=u8::MAX).find(|&a| self.holder(a) == Some(owner) && in_named(a));
        kept.or_else(|| {
            let usable = |p: &&(String, Vec<u8>, bool)| pool.map_or(p.2, |name| p.0 == name);
            self.pools.iter().filter(usable).find_map(|p| {
                let mut addresses = p.1.clone();
                addresses.sort_unstable();
                addresses.into_iter().find(|&a| self.holder(a).is_none())
            })
        })
    }
}

fn replace(pools: &[(u8, u8, bool)], model: &mut Model, allocator: &mut Allocator<u8>) {
    model.pools = pools
        .iter()
        .enumerate()
        .map(|(index, &(first, more, auto))| (format!("p{index}"), (first..=first + more).collect(), auto))
        .collect();
    allocator.replace_pools(pools.iter().enumerate().map(|(index, &(first, more, auto))| {
        let range = format!("{}-{}", address(first), address(first + more));
        Pool { auto_assign: auto, ..pool(&format!("p{index}"), &[&range]) }
    }));
}

proptest! {
    #[test]
    fn it_does_what_a_naive_set_does(steps in prop::collection::vec(step(), 1..80)) {
        let (mut model, mut allocator) = (Model::default(), Allocator::<u8>::default());
        replace(&[(0, 9, true), (20, 5, true), (40, 5, false)], &mut model, &mut allocator);
        for step in steps {
            match step {
                Step::Allocate { owner, pool, address: wanted } => {
                    let name = pool.map(|index| format!("p{index}"));
                    let expected = model.expected(owner, name.as_deref(), wanted);
                    let request = Request { pool: name, address: wanted.map(address) };
                    let given = allocator.allocate(&owner, Family::V4, &request);
                    prop_assert_eq!(given.ok().map(|a| a.address), expected.map(address));
                    if let Some(a) = expected && model.holder(a).is_none() {
                        model.holders.push((a, owner));
                    }
                }
                Step::Adopt { owner, address: a } => {
                    let expected = match model.holder(a) {
                        None => {
                            model.holders.push((a, owner));
                            Adopted::New
                        }
                        Some(holder) if holder == owner => Adopted::Already,
                        Some(holder) => Adopted::Conflict { holder },
                    };
                    prop_assert_eq!(allocator.adopt(address(a), &owner), expected);
                }
                Step::Release { owner, address: a } => {
                    let held = model.holder(a) == Some(owner);
                    prop_assert_eq!(allocator.release(address(a), &owner), held);
                    model.holders.retain(|&(at, by)| (at, by) != (a, owner));
                }
                Step::Replace(pools) => replace(&pools, &mut model, &mut allocator),
            }
            for (name, addresses, _) in &model.pools {
                let counts = allocator.counts(name, Family::V4);
                let assigned = addresses.iter().filter(|&&a| model.holder(a).is_some()).count();
                prop_assert_eq!((counts.total, counts.assigned), (addresses.len() as u128, assigned as u128));
            }
            let mut holders: Vec<_> = model.holders.iter().map(|&(a, owner)| (address(a), owner)).collect();
            holders.sort_unstable();
            prop_assert_eq!(allocator.in_use().map(|(a, owner)| (a, *owner)).collect::<Vec<_>>(), holders);
        }
    }

    #[test]
    fn rebuilt_from_what_is_in_use_it_is_the_same(steps in prop::collection::vec(step(), 1..60), seed in any::<u64>()) {
        let (mut model, mut allocator) = (Model::default(), Allocator::<u8>::default());
        replace(&[(0, 9, true), (20, 5, true)], &mut model, &mut allocator);
        for step in steps {
            match step {
                Step::Allocate { owner, pool, address: wanted } => {
                    let request = Request { pool: pool.map(|i| format!("p{i}")), address: wanted.map(address) };
                    let _ = allocator.allocate(&owner, Family::V4, &request);
                }
                Step::Adopt { owner, address: a } => drop(allocator.adopt(address(a), &owner)),
                Step::Release { owner, address: a } => drop(allocator.release(address(a), &owner)),
                Step::Replace(pools) => replace(&pools, &mut model, &mut allocator),
            }
        }
        // The cluster lists its objects in any order.
        let mut known: Vec<_> = allocator.in_use().map(|(a, owner)| (a, *owner)).collect();
        known.sort_by_key(|(a, _)| number(*a).wrapping_mul(u128::from(seed | 1) << 64 | 1).rotate_left(67));
        let mut rebuilt = Allocator::new(allocator.pools().cloned());
        for (a, owner) in known {
            prop_assert_eq!(rebuilt.adopt(a, &owner), Adopted::New);
        }
        prop_assert_eq!(rebuilt, allocator);
    }
}
