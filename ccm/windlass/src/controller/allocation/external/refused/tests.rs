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

#[test]
fn a_refusal_is_told_once_and_again_after_it_was_over() {
    let (mut all, a) = (RefusedExternalIps::default(), service("a"));
    let one = "external IP 192.0.2.1 is not announced: x";
    assert_eq!(all.replace(&a, refused("x", 1..2)).to_user, [one]);
    let two = "external IPs 192.0.2.1, 192.0.2.2 are not announced: x";
    assert_eq!(all.replace(&a, refused("x", 1..3)).to_user, [two]);
    assert_eq!(all.replace(&a, refused("x", 1..3)), News::default());
    assert!(all.replace(&a, Refused::default()).changed);
    assert_eq!(all.count("p"), 0);
    assert_eq!(all.replace(&a, refused("x", 1..2)).to_user, [one]);
}

#[test]
fn many_refusals_are_told_in_one_sentence_for_each_reason_and_counted_on_the_pool() {
    let (mut all, a) = (RefusedExternalIps::default(), service("a"));
    let news = all.replace(&a, refused("x", 1..41));
    let some = "192.0.2.1, 192.0.2.2, 192.0.2.3, 192.0.2.4, 192.0.2.5";
    assert_eq!(news.to_user, [format!("external IPs {some} and 35 more are not announced: x")]);
    assert_eq!((all.count("p"), all.some("p").len()), (40, 5));
    assert_eq!(all.some("p")[0], "192.0.2.1 by Service ns/a");
    let mut many = Refused::default();
    for end in 1..41 {
        many.add(IpAddr::from([192, 0, 2, end]), "p".into(), format!("reason {end:02}"));
    }
    assert_eq!(all.replace(&a, many).to_user.len(), 5, "however many reasons there are");
}

#[test]
fn an_owner_is_told_of_the_first_services_that_list_its_address_and_not_of_a_flood_of_them() {
    let (mut all, victim) = (RefusedExternalIps::default(), service("victim"));
    let mut lists = |user: &str| {
        let mut refused = refused("x", 1..2);
        refused.belongs_to(&victim, IpAddr::from([192, 0, 2, 1]), None, format!("{user} lists it"));
        all.replace(&service(user), refused).to_owners
    };
    assert_eq!(lists("a"), [(victim.clone(), "a lists it".to_owned())]);
    assert_eq!(lists("a"), [], "told once");
    let told: usize = (0..100).map(|n| lists(&format!("b{n}")).len()).sum();
    assert_eq!(told, 4);
    for n in 0..100 {
        all.replace(&service(&format!("b{n}")), Refused::default());
    }
    all.replace(&service("a"), Refused::default());
    assert!(all.users_by_owner.is_empty() && all.uses.is_empty() && all.by_service.is_empty());
}

/// Else it would list the address on another port first, or have five Services that do.
#[test]
fn who_takes_a_port_of_an_owner_is_told_though_it_or_many_others_listed_the_address_before() {
    let (mut all, victim) = (RefusedExternalIps::default(), service("victim"));
    let web = Port { protocol: windlass_ipam::Protocol::Tcp, number: 80 };
    let mut lists = |user: &str, port: Option<Port>| {
        let mut refused = refused("x", 1..3);
        refused.belongs_to(&victim, IpAddr::from([192, 0, 2, 1]), None, format!("{user} lists it"));
        refused.belongs_to(&victim, IpAddr::from([192, 0, 2, 2]), port, format!("{user} on {port:?}"));
        let told = all.replace(&service(user), refused).to_owners;
        (told.into_iter().map(|(_, message)| message).collect::<Vec<_>>(), all.contested("p"), all.some("p"))
    };
    for n in 0..20 {
        let (_, contested, _) = lists(&format!("a{n:02}"), None);
        assert_eq!(contested, 0);
    }
    let (told, contested, some) = lists("a19", Some(web));
    assert_eq!((told, contested), (vec![format!("a19 on {:?}", Some(web))], 1));
    assert_eq!(some[0], "192.0.2.2 by Service ns/a19 on its owner's port TCP 80");
    assert_eq!(some.len(), 5);
    assert_eq!(lists("a19", Some(web)).0, Vec::<String>::new(), "told once");
    let told: usize = (0..100).map(|n| lists(&format!("b{n}"), Some(web)).0.len()).sum();
    assert_eq!(told, 4);
    assert_eq!(lists("a19", None).1, 100);
    for user in (0..20).map(|n| format!("a{n:02}")).chain((0..100).map(|n| format!("b{n}"))) {
        all.replace(&service(&user), Refused::default());
    }
    assert!(all.users_by_owner.is_empty() && all.uses.is_empty() && all.by_service.is_empty());
}
