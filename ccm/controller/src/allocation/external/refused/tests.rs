use super::*;

fn service(name: &str) -> ServiceRef {
    ServiceRef { namespace: "ns".into(), name: name.into(), uid: name.into() }
}

/// What is refused for `why`: the addresses that end so.
fn refused(why: &str, ends: std::ops::Range<u8>) -> Refused {
    let mut refused = Refused::default();
    for end in ends {
        refused.add(IpAddr::from([192, 0, 2, end]), "p".into(), why.into());
    }
    refused
}

fn assert_empty(all: &RefusedExternalIps) {
    let RefusedExternalIps { by_service, by_pool, told_owners, told_of, begun: _ } = all;
    let is_empty =
        by_service.is_empty() && by_pool.is_empty() && told_owners.is_empty() && told_of.is_empty();
    assert!(is_empty, "{all:?}");
}

#[test]
fn a_refusal_is_told_once_and_again_after_it_was_over() {
    let (mut all, a) = (RefusedExternalIps::default(), service("a"));
    let one = "external IP 192.0.2.1 is not announced: x";
    assert_eq!(all.replace(&a, &refused("x", 1..2)).to_user, [one]);
    let two = "external IPs 192.0.2.1, 192.0.2.2 are not announced: x";
    assert_eq!(all.replace(&a, &refused("x", 1..3)).to_user, [two]);
    assert_eq!(all.replace(&a, &refused("x", 1..3)), News::default());
    assert!(all.replace(&a, &Refused::default()).changed);
    assert_eq!(all.count("p"), 0);
    assert_eq!(all.replace(&a, &refused("x", 1..2)).to_user, [one]);
}

#[test]
fn many_refusals_are_told_in_one_sentence_for_each_reason_and_counted_on_the_pool() {
    let (mut all, a) = (RefusedExternalIps::default(), service("a"));
    let news = all.replace(&a, &refused("x", 1..41));
    let some = "192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4, 192.0.2.5";
    assert_eq!(news.to_user, [format!("external IPs {some} and 35 more are not announced: x")]);
    assert_eq!((all.count("p"), all.some("p").len()), (40, 5));
    assert_eq!(all.some("p")[0], "192.0.2.1 by Service ns/a");
    let mut many = Refused::default();
    for end in 1..41 {
        many.add(IpAddr::from([192, 0, 2, end]), "p".into(), format!("reason {end:02}"));
    }
    assert_eq!(all.replace(&a, &many).to_user.len(), 5, "however many reasons there are");
}

#[test]
fn an_owner_is_told_of_the_first_services_that_list_its_address_and_not_of_a_flood_of_them() {
    let (mut all, victim) = (RefusedExternalIps::default(), service("victim"));
    let mut lists = |user: &str| {
        let mut refused = refused("x", 1..2);
        refused.belongs_to(&victim, IpAddr::from([192, 0, 2, 1]), None);
        all.replace(&service(user), &refused).to_owners
    };
    let told = lists("a");
    let says = "Service ns/a lists this Service's address 192.0.2.1 in spec.externalIPs, which is refused, and receives";
    assert!(told.len() == 1 && told[0].0 == victim && told[0].1.starts_with(says), "{told:?}");
    assert_eq!(lists("a"), [], "told once");
    let told: usize = (0..100).map(|n| lists(&format!("b{n}")).len()).sum();
    assert_eq!(told, 4);
    for n in 0..100 {
        all.replace(&service(&format!("b{n}")), &Refused::default());
    }
    all.replace(&service("a"), &Refused::default());
    assert_empty(&all);
}

// shows: threats T-02
/// Else it would list the address on another port first, or have five Services that do.
#[test]
fn who_takes_a_port_of_an_owner_is_told_though_it_or_many_others_listed_the_address_before() {
    let (mut all, victim) = (RefusedExternalIps::default(), service("victim"));
    let web = Port { protocol: windlass_ipam::Protocol::Tcp, number: 80 };
    let mut lists = |user: &str, port: Option<Port>| {
        let mut refused = refused("x", 1..3);
        refused.belongs_to(&victim, IpAddr::from([192, 0, 2, 1]), None);
        refused.belongs_to(&victim, IpAddr::from([192, 0, 2, 2]), port);
        let told = all.replace(&service(user), &refused).to_owners;
        (told.into_iter().map(|(_, message)| message).collect::<Vec<_>>(), all.contested("p"), all.some("p"))
    };
    for n in 0..20 {
        let (_, contested, _) = lists(&format!("a{n:02}"), None);
        assert_eq!(contested, 0);
    }
    let (told, contested, some) = lists("a19", Some(web));
    let says = "Service ns/a19 lists this Service's address 192.0.2.2 in spec.externalIPs, which is refused, and listens on port TCP 80";
    assert!(told.len() == 1 && told[0].starts_with(says), "{told:?}");
    assert_eq!(contested, 1);
    assert_eq!(some[0], "192.0.2.2 by Service ns/a19 on its owner's port TCP 80");
    assert_eq!(some.len(), 5);
    assert_eq!(lists("a19", Some(web)).0, Vec::<String>::new(), "told once");
    let told: usize = (0..100).map(|n| lists(&format!("b{n}"), Some(web)).0.len()).sum();
    assert_eq!(told, 4);
    assert_eq!(lists("a19", None).1, 100);
    for user in (0..20).map(|n| format!("a{n:02}")).chain((0..100).map(|n| format!("b{n}"))) {
        all.replace(&service(&user), &Refused::default());
    }
    assert_empty(&all);
}

/// Each for a reason of its own, and each another Service's.
fn refused_in_every_way(entries: u8) -> Refused {
    let mut refused = Refused::default();
    for end in 0..entries {
        let address = IpAddr::from([192, 0, 2, end]);
        refused.add(address, "p".into(), format!("Service ns/victim-{end} has it"));
        refused.belongs_to(&service(&format!("victim-{end}")), address, None);
    }
    refused
}

// shows: threats T-04
#[test]
fn what_is_kept_of_a_service_grows_neither_with_its_entries_nor_with_what_others_list() {
    let mut all = RefusedExternalIps::default();
    for user in 0..200 {
        all.replace(&service(&format!("evil-{user}")), &refused_in_every_way(64));
    }
    assert_eq!((all.count("p"), all.contested("p"), all.some("p").len()), (200 * 64, 0, 5));
    for Summary { messages, pools } in all.by_service.values() {
        assert_eq!((messages.len(), pools.len(), pools[0].1.entries), (5, 1, 64));
        assert_eq!((pools[0].1.some_contested.len(), pools[0].1.some_others.len()), (0, 5));
    }
    assert_eq!(all.told_owners.len(), 64);
    assert!(all.told_owners.values().all(|told| told.others.len() == 5 && told.contested.is_empty()));
    let told: usize = all.told_of.values().map(BTreeMap::len).sum();
    assert_eq!(told, 64 * 5, "who was told of nobody is not remembered");
    for user in 0..200 {
        all.replace(&service(&format!("evil-{user}")), &Refused::default());
    }
    assert_empty(&all);
}

#[test]
fn whose_address_an_entry_is_may_change_while_nothing_else_does_and_the_new_owner_is_told() {
    let (mut all, user) = (RefusedExternalIps::default(), service("evil"));
    let mut of = |owner: &str| {
        let mut refused = refused("x", 1..2);
        refused.belongs_to(&service(owner), IpAddr::from([192, 0, 2, 1]), None);
        let news = all.replace(&user, &refused);
        (news.to_owners.into_iter().map(|(owner, _)| owner.name).collect::<Vec<_>>(), news.changed)
    };
    assert_eq!(of("first"), (vec!["first".to_owned()], true));
    assert_eq!(of("first"), (vec![], false));
    assert_eq!(of("second"), (vec!["second".to_owned()], false), "the pool shows the same");
    assert_eq!(of("first"), (vec!["first".to_owned()], false));
}
