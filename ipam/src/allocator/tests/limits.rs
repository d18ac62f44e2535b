//! Limits for namespaces and owners, what gives way where nothing is free, pools that are a namespace's only ones, and
//! addresses that stay with a namespace.

use proptest::prelude::*;

use super::*;
use crate::{Limits, WhenFull};

/// A Service of a namespace, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Tenant(&'static str, u8);

impl Owner for Tenant {
    type StableKey = Self;

    fn stable_key(&self) -> Self {
        *self
    }

    fn namespace(&self) -> &'static str {
        self.0
    }
}

impl std::fmt::Display for Tenant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

const NOW: Moment = Moment(5_000);

/// A pool with these limits that keeps released addresses back for a minute.
fn limited(ranges: &[&str], per_namespace: Option<u32>, per_owner: Option<u32>) -> Pool {
    pool_with("p", ranges, |policy| {
        policy.limits = Limits { per_namespace, per_owner };
        policy.quarantine = Policy::QUARANTINE;
    })
}

/// Gives to `owner` what it asks for: the addresses, or the error.
fn give(allocator: &mut Allocator<Tenant>, owner: Tenant, request: &Request) -> Result<Vec<String>, String> {
    let request = Request {
        requester: crate::Requester { namespace: owner.0.into(), ..request.requester.clone() },
        ..request.clone()
    };
    let plan = allocator.prepare(&owner, &request).map_err(|error| error.to_string())?.commit();
    Ok(plan.addresses.iter().map(|planned| planned.address.to_string()).collect())
}

fn gone(allocator: &mut Allocator<Tenant>, owner: Tenant, now: Moment) {
    for address in allocator.held_by(&owner).collect::<Vec<_>>() {
        allocator.release(address, &owner, now);
        allocator.set_abandoned(address, true);
    }
}

#[test]
fn a_namespace_gets_as_many_as_its_limit_says_and_others_are_not_concerned() {
    let mut allocator = Allocator::new([limited(&["1.2.3.0/29"], Some(2), None)]);
    for name in 0..2 {
        assert!(give(&mut allocator, Tenant("evil", name), &v4()).is_ok());
    }
    let refused = "no free IPv4 address; pool \"p\" gives the Services of a namespace 2 of a family at most, \
                   and those of this one have 2, including quarantined ones: free one that counts, or have \
                   the pool's limit raised";
    assert_eq!(give(&mut allocator, Tenant("evil", 2), &v4()), Err(refused.to_owned()));
    let named = give(&mut allocator, Tenant("evil", 2), &v4().named(&["1.2.3.6"])).unwrap_err();
    assert!(named.contains("cannot be given") && named.contains("2 of a family at most"), "{named}");
    for name in 0..2 {
        assert!(give(&mut allocator, Tenant("good", name), &v4()).is_ok());
    }
    assert!(give(&mut allocator, Tenant("evil", 0), &v4()).is_ok(), "what it has it keeps");
}

#[test]
fn what_is_kept_back_counts_so_that_churn_gains_nothing() {
    let mut allocator = Allocator::new([limited(&["1.2.3.0/29"], Some(2), None)]);
    for name in 0..2 {
        give(&mut allocator, Tenant("evil", name), &v4()).expect("free");
        gone(&mut allocator, Tenant("evil", name), NOW);
    }
    assert!(give(&mut allocator, Tenant("evil", 2), &v4()).is_err());
    assert_eq!(
        give(&mut allocator, Tenant("evil", 1), &v4()),
        Ok(vec!["1.2.3.1".into()]),
        "it has its own back"
    );
    allocator.end_quarantine(ip("1.2.3.0"));
    assert!(give(&mut allocator, Tenant("evil", 2), &v4()).is_ok(), "it is over");
}

#[test]
fn a_service_gets_as_many_as_its_limit_says() {
    let mut allocator = Allocator::new([limited(&["1.2.3.0/29"], None, Some(2))]);
    let a = Tenant("ns", 0);
    let refused = give(&mut allocator, a, &v4().times(3)).unwrap_err();
    assert!(
        refused.contains("pool \"p\" gives a Service 2 of a family at most, and this one has 0"),
        "{refused}"
    );
    assert_eq!(give(&mut allocator, a, &v4().times(2)), Ok(vec!["1.2.3.0".into(), "1.2.3.1".into()]));
    // It names another address again and again: what it leaves is kept back, and counts.
    allocator.release(ip("1.2.3.1"), &a, NOW);
    assert!(give(&mut allocator, a, &v4().named(&["1.2.3.5"])).is_err());
    assert!(give(&mut allocator, Tenant("ns", 1), &v4().times(2)).is_ok());
}

#[test]
fn in_an_exhausted_pool_what_a_gone_service_left_first_gives_way_and_nothing_else() {
    let mut allocator = Allocator::new([limited(&["1.2.3.0/30"], None, None)]);
    for name in 0..4 {
        give(&mut allocator, Tenant("evil", name), &v4()).expect("free");
    }
    let (a, b) = (Tenant("good", 0), Tenant("good", 1));
    // 0 exists still, 1 is gone after 2, 3 holds its address.
    allocator.release(ip("1.2.3.0"), &Tenant("evil", 0), NOW);
    gone(&mut allocator, Tenant("evil", 2), NOW.after(Duration::from_secs(1)));
    gone(&mut allocator, Tenant("evil", 1), NOW.after(Duration::from_secs(2)));
    assert!(give(&mut allocator, a, &v4().named(&["1.2.3.2"])).is_err(), "nobody can pick one");
    assert_eq!(give(&mut allocator, a, &v4()), Ok(vec!["1.2.3.2".into()]));
    assert_eq!(give(&mut allocator, b, &v4()), Ok(vec!["1.2.3.1".into()]));
    assert!(give(&mut allocator, Tenant("good", 2), &v4()).is_err(), "whose Service exists stays kept back");
    let counts = allocator.counts("p", Family::V4);
    assert_eq!((counts.assigned, counts.quarantined, counts.available()), (3, 1, 0));
}

#[test]
fn what_is_free_goes_before_what_gives_way_and_taken_addresses_never_give_way() {
    let mut allocator = Allocator::new([limited(&["1.2.3.0/31"], None, None)]);
    give(&mut allocator, Tenant("a", 0), &v4()).expect("free");
    gone(&mut allocator, Tenant("a", 0), NOW);
    assert_eq!(give(&mut allocator, Tenant("b", 0), &v4()), Ok(vec!["1.2.3.1".into()]));
    let taken =
        Quarantined { former: vec![], until: NOW, reason: QuarantineCause::AddressTaken, is_abandoned: true };
    allocator.quarantine(ip("1.2.3.0"), taken);
    assert!(give(&mut allocator, Tenant("b", 1), &v4()).is_err());
}

#[test]
fn who_has_a_pool_of_its_own_gets_nothing_from_those_for_everybody_if_that_pool_says_so() {
    let own = |confines: bool| {
        pool_with("own", &["1.2.3.0"], |policy| {
            policy.namespaces = BTreeSet::from(["team".to_owned()]);
            policy.when_full = if confines { WhenFull::Wait } else { WhenFull::UseOthers };
        })
    };
    let others = || {
        [
            pool("all", &["1.2.4.0/30", "1:2::/126"]),
            pool_with("second", &["1.2.5.0"], |policy| {
                policy.namespaces = BTreeSet::from(["team".to_owned()]);
                policy.auto_assign = false;
            }),
        ]
    };
    let mut allocator = Allocator::new(others().into_iter().chain([own(true)]));
    assert_eq!(give(&mut allocator, Tenant("team", 0), &v4()), Ok(vec!["1.2.3.0".into()]));
    let refused = give(&mut allocator, Tenant("team", 1), &v4()).unwrap_err();
    let expected = "pool \"all\" is not for Services that have a pool of their own (only own)";
    assert!(refused.contains(expected), "{refused}");
    for request in [v4().from("all"), v4().named(&["1.2.4.1"])] {
        let refused = give(&mut allocator, Tenant("team", 1), &request).unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    }
    assert!(give(&mut allocator, Tenant("team", 1), &v4().from("second")).is_ok(), "it is the team's, too");
    assert_eq!(
        give(&mut allocator, Tenant("team", 2), &v6()),
        Ok(vec!["1:2::".into()]),
        "of which its own has none"
    );
    assert_eq!(give(&mut allocator, Tenant("else", 0), &v4()), Ok(vec!["1.2.4.0".into()]));
    let mut allocator = Allocator::new(others().into_iter().chain([own(false)]));
    assert_eq!(give(&mut allocator, Tenant("team", 0), &v4()), Ok(vec!["1.2.3.0".into()]));
    assert_eq!(give(&mut allocator, Tenant("team", 1), &v4()), Ok(vec!["1.2.4.0".into()]));
}

#[test]
fn a_released_address_stays_with_its_namespace_as_long_as_the_pool_says() {
    let pool = pool_with("p", &["1.2.3.0/30"], |policy| {
        policy.quarantine = Duration::from_mins(1);
        policy.namespace_quarantine = Duration::from_hours(1);
    });
    let mut allocator = Allocator::new([pool]);
    let released = |allocator: &mut Allocator<Tenant>, owner: Tenant| {
        give(allocator, owner, &v4().named(&["1.2.3.0"])).expect("its own");
        allocator.release(ip("1.2.3.0"), &owner, NOW)
    };
    let until = NOW.after(Duration::from_hours(1));
    assert_eq!(released(&mut allocator, Tenant("a", 0)), Released::Quarantined { until });
    assert!(give(&mut allocator, Tenant("b", 0), &v4().named(&["1.2.3.0"])).is_err());
    assert_eq!(
        give(&mut allocator, Tenant("a", 1), &v4()),
        Ok(vec!["1.2.3.1".into()]),
        "it does not name it"
    );
    assert_eq!(released(&mut allocator, Tenant("a", 2)), Released::Quarantined { until });
    allocator.end_quarantine(ip("1.2.3.0"));
    assert!(give(&mut allocator, Tenant("b", 0), &v4().named(&["1.2.3.0"])).is_ok());
}

/// A tenant that creates and deletes Services, now and then for good, in any order.
fn churn(allocator: &mut Allocator<Tenant>, steps: &[(u8, bool)]) {
    for (at, (name, creates)) in steps.iter().enumerate() {
        let owner = Tenant("evil", *name);
        if *creates {
            for address in allocator.kept_back_for(&owner).to_vec() {
                allocator.set_abandoned(address, false);
            }
            // Refused or not.
            drop(give(allocator, owner, &v4()));
        } else {
            gone(allocator, owner, Moment(at as u64));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))] // 0.93 ms each

    // shows: threats T-06
    #[test]
    fn churn_fills_no_pool_for_others(steps in prop::collection::vec((0..40u8, any::<bool>()), 0..200)) {
        // With a limit whatever it holds and left.
        let mut allocator = Allocator::new([limited(&["1.2.3.0/29"], Some(6), None)]);
        churn(&mut allocator, &steps);
        for name in 0..2 {
            prop_assert!(give(&mut allocator, Tenant("good", name), &v4()).is_ok());
        }
        // Without one as long as it does not hold everything.
        let mut allocator = Allocator::new([limited(&["1.2.3.0/29"], None, None)]);
        churn(&mut allocator, &steps);
        let held = allocator.in_use().count();
        prop_assert_eq!(give(&mut allocator, Tenant("good", 0), &v4()).is_ok(), held < 8);
    }
}
