use windlass_engine::{Family, Vrid};

use super::*;

#[test]
fn faults_that_somebody_has_to_mend_say_where_and_what_helps() {
    let key = RouterKey { interface: "eth0".to_owned(), family: Family::V4, vrid: Vrid::new(7).unwrap() };
    let source: IpAddr = "192.0.2.12".parse().unwrap();
    for (event, reason, about, words) in [
        (
            Event::SourceInUse { key: key.clone() },
            node_event::SOURCE_IN_USE,
            None,
            ["own address", "another address"].as_slice(),
        ),
        (
            Event::SecondActive { key: key.clone(), source },
            node_event::SECOND_ACTIVE,
            Some(source),
            &["192.0.2.12", "VRID 7", "does not receive", "spec.vrrp.authentication"],
        ),
        (
            Event::AdvertsRefused { key: key.clone(), error: "EPERM: look".to_owned() },
            node_event::ADVERTS_REFUSED,
            None,
            &["EPERM: look", "both are Active"],
        ),
        (
            Event::Unauthenticated {
                key: key.clone(),
                source,
                error: windlass_engine::auth::AuthError::UnknownKey(3),
            },
            node_event::ADVERTS_NOT_AUTHENTIC,
            Some(source),
            &["192.0.2.12", "signed by key 3", "same keys", "both may be Active"],
        ),
        (
            Event::ClocksDiffer { key: key.clone(), source, seconds: -9 },
            node_event::CLOCKS_DIFFER,
            Some(source),
            &["192.0.2.12", "-9 s", "synchronise the clocks"],
        ),
        (
            Event::AddressOnInterface { key: key.clone(), address: source },
            node_event::VIRTUAL_IP_ON_INTERFACE,
            Some(source),
            &["192.0.2.12", "remove it"],
        ),
        (
            Event::ClaimIgnored { key: key.clone(), intruder: windlass_engine::Intruder { uid: Some(1000) } },
            node_event::CLAIM_IGNORED,
            None,
            &["user 1000", "is ignored", "hostNetwork"],
        ),
    ] {
        let fault = Fault::of(&event, &AGENT).expect("a fault");
        assert_eq!((fault.reason, fault.about, &fault.key), (reason, about, &key));
        assert!(fault.message.starts_with("on eth0: "), "{fault:?}");
        assert!(words.iter().all(|word| fault.message.contains(word)), "{fault:?}");
        assert!(node_event::ALL.contains(&fault.reason));
    }
    assert_eq!(Fault::of(&Event::Recovered { key }, &AGENT), None);
}
