use std::collections::BTreeSet;

use windlass_kernel::port::{Protocol, ProtocolPort};

use super::*;

const WEB: ProtocolPort = ProtocolPort { protocol: Protocol::Tcp, port: 80 };

fn vip(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// These addresses let in this range.
fn restricted(addresses: impl IntoIterator<Item = u8>, range: &str) -> Restrictions {
    let mut restrictions = Restrictions::default();
    for last in addresses {
        restrictions.restrict(vip(last), [WEB], [range.parse().unwrap()]);
    }
    restrictions
}

// shows: threats T-03
#[test]
fn all_but_what_is_refused_is_in_force_and_what_is_refused_is_as_it_was() {
    for bad in [&[][..], &[1], &[64], &[7, 8], &[1, 30, 31, 64]] {
        let bad: BTreeSet<IpAddr> = bad.iter().map(|last| vip(*last)).collect();
        let installed = restricted(1..=40, "10.0.0.0/8");
        let wanted = restricted(1..=64, "172.16.0.0/12");
        let mut in_force = installed.clone();
        let mut calls = 0;
        let refused = put_in_force(&installed, &wanted, |next| {
            calls += 1;
            let asks = bad.iter().find(|address| next.of(**address) == wanted.of(**address));
            if let Some(address) = asks {
                return Err(address.to_string());
            }
            in_force = next.clone();
            Ok(())
        });
        let expected = bad.iter().map(|address| (*address, address.to_string())).collect();
        assert_eq!(refused, Ok(expected));
        assert_eq!(in_force, wanted.as_other_of(&installed, &bad), "{bad:?}");
        assert!(calls <= 2 + bad.len() * 2 * 7, "{calls} calls for {bad:?}");
    }
}

#[test]
fn what_is_refused_without_a_change_of_restrictions_is_refused_as_a_whole() {
    let installed = restricted(1..=4, "10.0.0.0/8");
    let mut calls = 0;
    let refused = put_in_force(&installed, &restricted(1..=8, "10.0.0.0/8"), |_| {
        calls += 1;
        Err::<(), _>("no nf_tables")
    });
    assert_eq!((refused, calls), (Err("no nf_tables"), 1));
}
