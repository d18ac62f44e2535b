//! Which pools a Service may use (section 2C).

use super::*;
use crate::{Requirement, Selector};

fn namespaces<const N: usize>(names: [&str; N]) -> impl FnOnce(&mut Policy) {
    let names = names.map(str::to_owned).into();
    move |policy| policy.namespaces = names
}

// shows: allocation 14
#[test]
fn s14_a_pool_without_auto_assign_serves_only_those_who_name_it_or_its_address() {
    let rows = [
        (v4(), "1.2.4.0", "1.2.4.1", "1.2.3.0"),
        (v6(), "1000::4:0", "1000::4:1", "1000::3:0"),
        (require(), "1.2.4.0 1000::4:0", "1.2.4.1 1000::4:1", "1.2.3.0 1000::3:0"),
    ];
    for (any, first, second, named) in rows {
        let mut fixture = Fixture::new([
            pool_with("a", &["1.2.3.0/31", "1000::3:0/127"], |policy| policy.auto_assign = false),
            pool("b", &["1.2.4.0/31", "1000::4:0/127"]),
        ]);
        assert_eq!(fixture.given("s1", any.clone()), first);
        assert_eq!(fixture.given("s2", any.clone()), second);
        assert_eq!(fixture.given("s3", any.clone()), "-");
        assert_eq!(fixture.given("s3", any.from("a")), named);
    }
    let mut fixture = Fixture::new([pool_with("a", &["1.2.3.0/31"], |policy| policy.auto_assign = false)]);
    assert_eq!(fixture.given("s1", v4().named(&["1.2.3.1"])), "1.2.3.1");
}

// shows: allocation 29, 37
#[test]
fn s29_and_s37_a_pool_for_one_namespace_refuses_others_also_by_name() {
    let mut fixture =
        Fixture::new([pool_with("a", &["1.2.3.0/30"], namespaces(["ns1"])), pool("b", &["1.2.4.0/30"])]);
    assert_eq!(fixture.given("s1", v4().of("ns1").named(&["1.2.3.1"])), "1.2.3.1");
    assert_eq!(
        fixture.refused("s2", v4().of("ns2").named(&["1.2.3.2"])),
        "address 1.2.3.2 cannot be given: pool \"a\" is not for Services of this namespace (only ns1)"
    );
    assert_eq!(
        fixture.refused("s2", v4().of("ns2").from("a")),
        "no free IPv4 address; pool \"a\" is not for Services of this namespace (only ns1): give the Service or its \
         namespace labels that a pool selects, or have a pool select it"
    );
}

// shows: allocation 30
#[test]
fn s30_namespaces_and_labels_of_a_pool_must_both_match() {
    let label = || vec![labels("team", "a")];
    let only_labels = |policy: &mut Policy| policy.service_selectors = label();
    let both = |policy: &mut Policy| {
        policy.service_selectors = label();
        policy.namespaces = ["ns1".to_owned()].into();
    };
    let rows: [(bool, &str, &str, bool); 6] = [
        (false, "ns9", "a", true),
        (false, "ns9", "b", false),
        (true, "ns1", "a", true),
        (true, "ns1", "b", false),
        (true, "ns2", "a", false),
        (true, "ns2", "b", false),
    ];
    for (with_namespace, namespace, team, expected) in rows {
        let pinned = if with_namespace {
            pool_with("a", &["1.2.3.0/30"], both)
        } else {
            pool_with("a", &["1.2.3.0/30"], only_labels)
        };
        let request = v4().of(namespace).labelled("team", team);
        for request in [request.clone(), request.clone().from("a"), request.named(&["1.2.3.0"])] {
            let mut fixture = Fixture::new([pinned.clone()]);
            assert_eq!(fixture.give("s1", request.clone()).is_ok(), expected, "{request:?}");
        }
    }
}

// shows: allocation 31 to 34
#[test]
fn s31_to_s34_pools_are_searched_by_priority_then_those_with_selectors_then_by_name() {
    let at = |priority| move |policy: &mut Policy| policy.priority = priority;
    let pinned = |policy: &mut Policy| policy.namespaces = ["ns".to_owned()].into();
    let pinned_at = |priority| {
        move |policy: &mut Policy| {
            policy.priority = priority;
            policy.namespaces = ["ns".to_owned()].into();
        }
    };
    let rows: [(&str, Vec<Pool>, [&str; 3]); 4] = [
        (
            "priorities, the default 100 after those that are set lower",
            vec![
                pool_with("a", &["1.0.0.1"], pinned),
                pool_with("b", &["1.0.0.2"], pinned_at(20)),
                pool_with("c", &["1.0.0.3"], pinned_at(10)),
            ],
            ["1.0.0.3", "1.0.0.2", "1.0.0.1"],
        ),
        (
            "a pinned pool before an open one of the same priority",
            vec![
                pool("a", &["1.0.0.1"]),
                pool_with("b", &["1.0.0.2"], pinned),
                pool_with("c", &["1.0.0.3"], at(99)),
            ],
            ["1.0.0.3", "1.0.0.2", "1.0.0.1"],
        ),
        (
            "only priorities",
            vec![
                pool_with("a", &["1.0.0.1"], at(20)),
                pool_with("b", &["1.0.0.2"], at(10)),
                pool("c", &["1.0.0.3"]),
            ],
            ["1.0.0.2", "1.0.0.1", "1.0.0.3"],
        ),
        (
            "names",
            vec![pool("b", &["1.0.0.2"]), pool("c", &["1.0.0.1"]), pool("a", &["1.0.0.3"])],
            ["1.0.0.3", "1.0.0.2", "1.0.0.1"],
        ),
    ];
    for (name, pools, expected) in rows {
        let mut fixture = Fixture::new(pools);
        let given = ["s1", "s2", "s3"].map(|owner| fixture.given(owner, v4()));
        assert_eq!(given, expected, "{name}");
        assert_eq!(fixture.given("s4", v4()), "-");
    }
}

// shows: allocation 35
#[test]
fn s35_a_namespace_is_chosen_by_its_labels_or_its_name() {
    let mut two_labels = labels("team", "a");
    two_labels.labels.insert("stage".into(), "prod".into());
    let mut fixture = Fixture::new([
        pool_with("labelled", &["1.0.0.1"], |policy| {
            policy.priority = 10;
            policy.namespace_selectors = vec![labels("team", "z"), two_labels];
        }),
        pool_with("listed", &["1.0.0.2"], |policy| {
            policy.priority = 20;
            policy.namespaces = ["ns".to_owned()].into();
        }),
        pool("open", &["1.0.0.3"]),
    ]);
    let mut request = v4();
    request.requester.namespace_labels =
        [("team", "a"), ("stage", "prod")].map(|(key, value)| (key.into(), value.into())).into();
    let given = ["s1", "s2", "s3"].map(|owner| fixture.given(owner, request.clone()));
    assert_eq!(given, ["1.0.0.1", "1.0.0.2", "1.0.0.3"]);
}

// shows: allocation 36
#[test]
fn s36_a_relabelled_namespace_matters_for_what_is_given_next_and_not_for_what_is_held() {
    let mut fixture = Fixture::new([
        pool_with("first", &["1.0.0.0/30"], |policy| {
            policy.priority = 1;
            policy.namespace_selectors = vec![labels("team", "a")];
        }),
        pool("open", &["1.0.1.0/30"]),
    ]);
    let mut relabelled = v4();
    relabelled.requester.namespace_labels.insert("team".into(), "a".into());
    assert_eq!(fixture.given("s1", v4()), "1.0.1.0");
    assert_eq!(fixture.given("s2", relabelled.clone()), "1.0.0.0");
    assert_eq!(fixture.given("s1", relabelled), "1.0.1.0", "held");
    assert_eq!(
        fixture.given("s2", v4()),
        "1.0.0.0",
        "held, although the namespace may not use the pool any more"
    );
}

// shows: allocation 38
#[test]
fn s38_an_unknown_pool_takes_nothing_away() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.0/30"])]);
    fixture.given("s1", v4());
    assert_eq!(fixture.refused("s1", v4().from("b")), "pool \"b\" does not exist: there are a");
    assert_eq!(fixture.held("s1"), "1.2.3.0");
    // Its own pool is gone, and no other has the address: there is nothing to say.
    fixture.allocator.replace_pools([]);
    assert_eq!(fixture.given("s1", v4().from("a")), "1.2.3.0");
    assert_eq!(fixture.given("s1", v4().from("a").named(&["1.2.3.0"])), "1.2.3.0");
    assert_eq!(fixture.refused("s2", v4().from("a")), "pool \"a\" does not exist: there is no pool");
}

// shows: allocation 39
#[test]
fn s39_an_address_of_another_pool_than_the_one_named_is_refused_and_not_leaked() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.0/31"]), pool("b", &["1.2.4.0/31"])]);
    assert_eq!(
        fixture.refused("s1", v4().from("b").named(&["1.2.3.0"])),
        "address 1.2.3.0 is not in pool \"b\" (1.2.4.0-1.2.4.1): ask for another address or another pool (it belongs to \
         pool \"a\")"
    );
    assert_eq!(fixture.allocator.in_use().count(), 0);
}

// shows: allocation 61
#[test]
fn s61_another_pool_is_asked_for_and_the_address_changes_at_once() {
    let mut fixture = Fixture::new([pool("a", &["1.2.3.0/31"]), pool("b", &["1.2.4.0/31"])]);
    assert_eq!(fixture.given("s1", v4().from("a")), "1.2.3.0");
    let plan = fixture.allocator.plan(&"s1", &v4().from("b")).expect("free");
    assert_eq!((plan.addresses[0].address, plan.to_release), (ip("1.2.4.0"), vec![ip("1.2.3.0")]));
    assert_eq!(fixture.given("s1", v4().from("b")), "1.2.4.0");
    assert_eq!(fixture.held("s1"), "1.2.4.0");
}

#[test]
fn a_refusal_says_what_would_help() {
    let closed = |name, edit: fn(&mut Policy)| pool_with(name, &["1.2.3.0/31"], edit);
    let elsewhere = |policy: &mut Policy| {
        policy.namespaces = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).into();
        policy.namespace_selectors = vec![labels("team", "x"), labels("team", "y")];
    };
    let tier = |policy: &mut Policy| {
        let requirement = Requirement::In("tier".into(), ["db".to_owned(), "web".to_owned()].into());
        let other = Requirement::DoesNotExist("old".into());
        let selector = Selector { requirements: vec![requirement, other], ..labels("app", "y") };
        policy.service_selectors = vec![selector, labels("app", "z")];
    };
    let selector = "give the Service or its namespace labels that a pool selects, or have a pool select it";
    for (pool, why, remedy) in [
        (closed("p", elsewhere), "(only a or b or c or d or e or 3 more)", selector),
        (closed("p", tier), "(only app=y,tier in (db,web),!old or app=z)", selector),
        (
            closed("p", |policy| policy.auto_assign = false),
            "name it",
            "or let one give to Services that name none",
        ),
        (closed("p", |policy| policy.disabled = true), "is disabled", "enable one, or add another pool"),
        (pool("p", &["2001:db8::/64"]), "none of that family", "add addresses of that family to a pool"),
        (pool("p", &[]), "none of that family", "add addresses of that family to a pool"),
    ] {
        let said = Fixture::new([pool]).refused("s", v4());
        assert!(said.contains(why) && said.ends_with(remedy), "{said}");
    }
}

#[test]
fn a_refusal_names_no_remedy_that_would_not_help() {
    let of_v6 = || pool("six", &["2001:db8::/127"]);
    let named = |ranges: &[&str]| pool_with("named", ranges, |policy| policy.auto_assign = false);
    let off = |ranges: &[&str]| pool_with("off", ranges, |policy| policy.disabled = true);
    let team = |ranges: &[&str]| pool_with("team", ranges, namespaces(["other"]));
    let reserved = |ranges: &[&str], kept: &[&str]| {
        let mut pool = pool("p", ranges);
        pool.reserved = kept.iter().map(|text| ip(text)).collect();
        pool
    };
    let add = "add addresses of that family to a pool";
    let (free, name) =
        ("free an address or add some to a pool", "or let one give to Services that name none");
    let none = "has none of that family";
    for (pools, wants, why, remedy) in [
        // To be let in where there is nothing of the family, or nothing at all.
        (vec![named(&["2001:db8::/127"])], 1, none, add),
        (vec![named(&[]), of_v6()], 1, none, add),
        (vec![off(&["2001:db8::/127"])], 1, none, add),
        (vec![team(&["2001:db8::/127"])], 1, none, add),
        (vec![named(&["2001:db8::/127"]), team(&["1.2.3.0"])], 1, none, "or have a pool select it"),
        (vec![named(&["1.2.3.0"]), team(&["2001:db8::/127"])], 1, none, name),
        // What is reserved is not in use, and nobody can free it.
        (vec![reserved(&["1.2.3.0"], &["1.2.3.0"])], 1, "(its one is reserved)", add),
        (vec![reserved(&["1.2.3.0/31"], &["1.2.3.0", "1.2.3.1"])], 1, "(all 2 are reserved)", add),
        // Nothing is in use.
        (vec![pool("p", &["1.2.3.0/31"])], 3, "has only 2 free", "ask for fewer or add some to a pool"),
    ] {
        let said = Fixture::new(pools).refused("s", v4().times(wants));
        assert!(said.contains(why) && said.ends_with(remedy), "{said}");
    }

    let mut fixture = Fixture::new([pool("p", &["1.2.3.0/31"])]);
    assert_eq!(fixture.given("s1", v4().times(2)), "1.2.3.0 1.2.3.1");
    let said = fixture.refused("s2", v4());
    assert!(said.contains("(all 2 are in use)") && said.ends_with(free), "{said}");
    // One of the two does not come back.
    fixture.allocator.replace_pools([reserved(&["1.2.3.0/31"], &["1.2.3.0"])]);
    let said = fixture.refused("s2", v4());
    assert!(said.contains("(1 of 2 are in use, the others reserved)") && said.ends_with(free), "{said}");
    fixture.allocator.replace_pools([reserved(&["1.2.3.0/31"], &["1.2.3.0", "1.2.3.1"])]);
    let said = fixture.refused("s2", v4());
    assert!(said.contains("(all 2 are reserved)") && said.ends_with(add), "{said}");
    // Nor of a pool that nobody may use without its name.
    fixture.allocator.replace_pools([named(&["1.2.3.0/31"])]);
    let said = fixture.refused("s2", v4());
    assert!(said.contains("only for Services that name it") && said.ends_with(add), "{said}");
    // Excluded: it is no part of the pool any more.
    fixture.allocator.replace_pools([pool("p", &[])]);
    let said = fixture.refused("s2", v4());
    assert!(said.contains(none) && said.ends_with(add), "{said}");
    fixture
        .allocator
        .replace_pools([pool_with("p", &["1.2.3.0/31"], |policy| policy.quarantine = Policy::QUARANTINE)]);
    fixture.release("s1");
    let said = fixture.refused("s2", v4());
    assert!(said.contains("(all 2 are in use or kept back)") && said.ends_with(free), "{said}");
}

#[test]
fn a_refusal_names_every_pool_and_why_it_said_no() {
    let mut fixture = Fixture::new([
        pool("one", &["1.2.3.0/32"]),
        pool("six", &["2001:db8::/64"]),
        pool("two", &["1.2.5.0/31"]),
        pool_with("named", &["1.2.4.0/30"], |policy| policy.auto_assign = false),
        pool_with("off", &["1.2.6.0/30"], |policy| policy.disabled = true),
        pool_with("team", &["1.2.7.0/30"], |policy| policy.service_selectors = vec![labels("team", "a")]),
        pool_with("space", &["1.2.8.0/30"], |policy| policy.namespaces = ["ns1".to_owned()].into()),
    ]);
    for owner in ["s1", "s2", "s3"] {
        fixture.given(owner, v4());
    }
    assert_eq!(
        fixture.refused("s4", v4()),
        "no free IPv4 address; pool \"space\" is not for Services of this namespace (only ns1); pool \"team\" is not for \
         Services with these labels (only team=a); pool \"named\" is only for Services that name it; pool \"off\" is disabled; pool \"one\" \
         has no free address (its one is in use); pool \"six\" has none of that family; pool \"two\" has no free \
         address (all 2 are in use): free an address or add some to a pool"
    );
    assert_eq!(
        fixture.refused("s4", v4().from("two").times(2)),
        "no 2 free IPv4 addresses; pool \"two\" has no free address (all 2 are in use): free an address or add some to \
         a pool"
    );
    fixture.release("s2");
    assert_eq!(
        fixture.refused("s4", v4().from("two").times(2)),
        "no 2 free IPv4 addresses; pool \"two\" has only 1 free: free an address or add some to a pool"
    );
    assert_eq!(
        Fixture::new([]).refused("s1", v4()),
        "no free IPv4 address: there is no pool; create a VirtualIPPool"
    );
}
