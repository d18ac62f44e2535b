use windlass_ipam::{Family, Pool};

use super::*;

fn reason_of(considered: &[RefusalReason]) -> &'static str {
    let considered = considered.iter().map(|&why| PoolRefusal::new(&Pool::new("p", []), why)).collect();
    reason(&AllocateError::NoFreeAddress {
        family: Family::V4,
        wanted: 1,
        considered,
        sharing_conflicts: Vec::new(),
    })
}

#[test]
fn pools_that_are_all_for_others_are_not_short_of_addresses() {
    let full = RefusalReason::Full;
    for (considered, reason) in [
        (&[RefusalReason::OtherNamespace][..], "PoolNotAllowed"),
        (
            &[RefusalReason::NotNamed, RefusalReason::OtherFamily, RefusalReason::OtherLabels],
            "PoolNotAllowed",
        ),
        (&[RefusalReason::OtherNamespace, full], "NoFreeAddress"),
        (&[RefusalReason::OtherNamespace, RefusalReason::Disabled], "NoFreeAddress"),
        (&[RefusalReason::OtherNamespace, RefusalReason::Confined], "PoolNotAllowed"),
        (&[full, RefusalReason::Confined], "NoFreeAddress"),
        (&[full, RefusalReason::NamespaceLimit { limit: 2, used: 2 }], "LimitReached"),
        (&[RefusalReason::OwnerLimit { limit: 2, used: 2 }], "LimitReached"),
        (&[RefusalReason::NotNamed], "NoFreeAddress"),
        (&[], "NoFreeAddress"),
    ] {
        assert_eq!(reason_of(considered), reason, "{considered:?}");
    }
}

// shows: field-reports F-85
#[test]
fn whoever_names_the_address_of_a_node_is_told_whose_it_is_and_not_to_add_it_to_a_pool() {
    let address = "192.0.2.12".parse().expect("an address");
    let in_no_pool = || AllocateError::InNoPool { address, known: vec!["p".to_owned()] };
    let not_in = |belongs_to: Option<&str>| AllocateError::NotInPool {
        address,
        pool: "p".to_owned(),
        range: "192.0.2.0-192.0.2.255".to_owned(),
        belongs_to: belongs_to.map(str::to_owned),
    };
    let said = |error: &AllocateError<ServiceRef>, node: Option<&'static str>| {
        let Rejection { reason, message } = allocation_rejected(
            error,
            |asked| node.filter(|_| asked == address),
            |_| None,
            StaysWith::Service,
        );
        assert_eq!(reason, "InvalidRequest");
        message
    };
    let of_node = "address 192.0.2.12 is an address of node n2 and is never given: ask for another address of the subnet. If the machine \
                   has no other, serve its pods by hostPort or NodePort, which need no virtual IP";
    for error in [in_no_pool(), not_in(None)] {
        assert_eq!(said(&error, Some("n2")), of_node);
        assert_eq!(said(&error, None), error.to_string());
    }
    // Some other pool does give it.
    assert_eq!(said(&not_in(Some("q")), Some("n2")), not_in(Some("q")).to_string());
}

#[test]
fn whoever_names_an_address_that_is_kept_back_is_told_with_whom_it_stays_and_until_when() {
    let service = |name: &str| ServiceRef { namespace: "a".into(), name: name.into(), uid: name.into() };
    let error = |former: &[&str], reason: QuarantineCause| AllocateError::Quarantined {
        address: "192.0.2.12".parse().expect("an address"),
        quarantined: Quarantined {
            former: former.iter().map(|name| service(name)).collect(),
            until: windlass_ipam::Moment(1_767_312_000_000),
            reason,
            is_abandoned: true,
        },
    };
    let said = |error: &AllocateError<ServiceRef>, stays: StaysWith| {
        let Rejection { reason, message } = allocation_rejected(error, |_| None, |_| None, stays);
        assert_eq!(reason, "AddressInUse");
        message
    };
    let told = |whom: &str, whose: &str| {
        format!(
            "address 192.0.2.12 cannot be given before 2026-01-02T00:00:00Z: Service {whom} released it, and \
             its pool keeps it for {whose} until then. Wait, or ask for another address"
        )
    };
    let one = error(&["x"], QuarantineCause::Released);
    assert_eq!(said(&one, StaysWith::Namespace), told("a/x", "namespace \"a\""));
    assert_eq!(said(&one, StaysWith::Service), told("a/x", "that Service"));
    let two = error(&["x", "y"], QuarantineCause::Released);
    assert_eq!(said(&two, StaysWith::Service), told("a/x and 1 more", "these Services"));
    let taken = error(&[], QuarantineCause::AddressTaken);
    assert_eq!(said(&taken, StaysWith::Service), taken.to_string());
}
