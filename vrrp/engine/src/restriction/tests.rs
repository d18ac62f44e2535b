use super::*;

const WEB: ProtocolPort = ProtocolPort { protocol: Protocol::Tcp, port: 80 };

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn ranges_are_kept_in_as_few_as_say_the_same_and_of_the_addresss_family() {
    let mut restrictions = Restrictions::default();
    let vip: IpAddr = "192.0.2.50".parse().unwrap();
    restrictions.restrict(vip, WEB, nets(&["10.0.0.0/9", "10.128.0.0/9", "10.1.0.0/16", "2001:db8::/32"]));
    assert_eq!(restrictions.of(vip).unwrap()[&WEB], nets(&["10.0.0.0/8"]));
    let six: IpAddr = "2001:db8::50".parse().unwrap();
    restrictions.restrict(six, WEB, nets(&["10.0.0.0/8"]));
    assert_eq!(restrictions.of(six).unwrap()[&WEB], nets(&[]), "nobody");
}

#[test]
fn a_port_that_is_restricted_twice_is_open_only_to_whom_both_let_in() {
    let table: [(&[&str], &[&str], &[&str]); 4] = [
        (&["10.0.0.0/8"], &["10.1.0.0/16", "192.0.2.0/24"], &["10.1.0.0/16"]),
        (&["10.1.0.0/16"], &["10.0.0.0/8"], &["10.1.0.0/16"]),
        (&["10.0.0.0/8"], &["10.0.0.0/8"], &["10.0.0.0/8"]),
        (&["10.0.0.0/8"], &["192.0.2.0/24"], &[]),
    ];
    for (first, second, both) in table {
        let mut restrictions = Restrictions::default();
        let vip: IpAddr = "192.0.2.50".parse().unwrap();
        restrictions.restrict(vip, WEB, nets(first));
        restrictions.restrict(vip, WEB, nets(second));
        assert_eq!(restrictions.of(vip).unwrap()[&WEB], nets(both), "{first:?} {second:?}");
    }
}
