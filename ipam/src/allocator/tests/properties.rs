//! The allocator against naive sets of addresses, and rebuilt from what the cluster knows.

mod model;
mod steps;

use model::{Model, Service};
use proptest::prelude::*;
use steps::{Step, pools, steps};

use super::*;

/// Does one step to both, and checks what the allocator answers against what the sets say.
fn run(step: &Step, allocator: &mut Allocator<Service>, model: &mut Model) -> Result<(), TestCaseError> {
    match step {
        Step::Give { owner, request, release } => {
            let before = allocator.clone();
            let planned = allocator.plan(owner, request);
            prop_assert_eq!(&allocator.plan(owner, request), &planned, "one state, one answer");
            prop_assert_eq!(&*allocator, &before, "a plan changes nothing");
            match planned {
                Ok(plan) => {
                    model.check(owner, request, &plan)?;
                    let charged = model.charged_to(owner);
                    let prepared = allocator.prepare(owner, request).map_err(fail)?;
                    prop_assert_eq!(prepared.plan(), &plan);
                    prop_assert_eq!(&prepared.commit(), &plan);
                    model.commit(owner, request, &plan);
                    // What its status shows it has back whatever the limits.
                    let shown = plan.addresses.iter().any(|one| request.preferred.contains(&one.address));
                    for (pool, family, limit, after) in model.charged_to(owner) {
                        let before = charged.iter().find(|(name, one, ..)| (name, *one) == (&pool, family));
                        let before = before.map_or(0, |(.., before)| *before);
                        prop_assert!(shown || after <= limit.max(before), "{} of {}: {}", pool, limit, after);
                    }
                    for left in plan.to_release.iter().filter(|_| *release) {
                        prop_assert_eq!(
                            allocator.release(*left, owner, model.now),
                            model.release(*left, owner)
                        );
                    }
                }
                Err(error) => {
                    prop_assert!(!model.can_serve(owner, request), "{} refused: {}", owner, error);
                }
            }
        }
        Step::Adopt { owner, address, terms, together } => {
            let adopted = if *together {
                allocator.adopt_together(*address, owner, terms)
            } else {
                allocator.adopt(*address, owner, terms)
            };
            prop_assert_eq!(adopted, model.adopt(*address, owner, terms, *together));
        }
        Step::Release { owner, address } => {
            prop_assert_eq!(allocator.release(*address, owner, model.now), model.release(*address, owner));
        }
        Step::Disown { owner, address } => {
            prop_assert_eq!(allocator.disown(*address, owner), model.leave(*address, owner).is_some());
        }
        Step::SetTerms { owner, terms } => {
            allocator.set_terms(owner, terms);
            model.set_terms(owner, terms);
        }
        Step::Quarantine { address, entry } => {
            allocator.quarantine(*address, entry.clone());
            model.quarantine(*address, entry);
        }
        Step::Lift { address } => {
            prop_assert_eq!(allocator.end_quarantine(*address), model.quarantined.remove(address).is_some());
        }
        Step::Abandon { address, is_abandoned } => {
            let entry = model.quarantined.get_mut(address);
            let changes = entry.as_ref().is_some_and(|entry| entry.is_abandoned != *is_abandoned);
            if let Some(entry) = entry {
                entry.is_abandoned = *is_abandoned;
            }
            prop_assert_eq!(allocator.set_abandoned(*address, *is_abandoned), changes);
        }
        Step::Tick { milliseconds } => {
            model.now = Moment(model.now.0 + milliseconds);
            let due: Vec<_> = allocator.ended_quarantines(model.now).collect();
            prop_assert_eq!(&due, &model.due());
            for address in due {
                prop_assert!(allocator.end_quarantine(address));
                model.quarantined.remove(&address);
            }
        }
        Step::Replace(pools) => {
            allocator.replace_pools(pools.clone());
            model.replace(pools);
        }
    }
    model.same(allocator)
}

fn fail(error: impl std::fmt::Display) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

proptest! {
    // shows: allocation A-02
    #[test]
    fn it_does_what_naive_sets_allow(first in pools(), steps in steps()) {
        let (mut allocator, mut model) = (Allocator::new(first.clone()), Model::default());
        model.replace(&first);
        model.same(&allocator)?;
        for step in &steps {
            run(step, &mut allocator, &mut model)?;
        }
    }

    // shows: allocation 78, A-02
    #[test]
    fn rebuilt_from_what_is_in_use_it_is_the_same(first in pools(), steps in steps(), seed in any::<u64>()) {
        let (mut allocator, mut model) = (Allocator::new(first.clone()), Model::default());
        model.replace(&first);
        for step in &steps {
            run(step, &mut allocator, &mut model)?;
        }
        // The order of releases is not in the cluster.
        let mut pools: Vec<Pool> = allocator.pools().cloned().collect();
        for pool in &mut pools {
            if pool.policy.order == crate::Order::LeastRecentlyUsed {
                pool.policy.order = crate::Order::Lowest;
            }
        }
        allocator.replace_pools(pools.clone());

        // The cluster lists its objects and pools in any order.
        let shuffled = |index: usize| (index as u64 + 1).wrapping_mul(seed | 1).rotate_left(29);
        let mut objects: Vec<_> = allocator
            .in_use()
            .map(|(address, holders)| (address, Some(holders.to_vec()), None))
            .chain(allocator.in_quarantine().map(|(address, entry)| (address, None, Some(entry.clone()))))
            .enumerate()
            .collect();
        objects.sort_by_key(|(index, _)| shuffled(*index));
        let rotated = usize::try_from(seed % 4).map_err(fail)? % pools.len().max(1);
        pools.rotate_left(rotated);
        let mut rebuilt = Allocator::default();
        if seed % 2 == 0 {
            rebuilt.replace_pools(pools.clone());
        }
        for (_, (address, holders, quarantined)) in objects {
            for holder in holders.into_iter().flatten() {
                let terms = allocator.terms(&holder).cloned().ok_or_else(|| fail("it holds something"))?;
                rebuilt.adopt_together(address, &holder, &terms);
            }
            if let Some(entry) = quarantined {
                rebuilt.quarantine(address, entry);
            }
        }
        if seed % 2 == 1 {
            rebuilt.replace_pools(pools);
        }
        prop_assert_eq!(rebuilt, allocator);
    }
}
