use super::*;

const IGMP: &str = "Idx\tDevice    : Count Querier\tReporter\n\
    1\tlo        :     1      V3\n\
    \t\t\t\t010000E0     1 0:00000000\t\t0\n\
    12\teth0      :     2      V3\n\
    \t\t\t\t120000E0     2 0:00000000\t\t0\n\
    \t\t\t\t010000E0     1 0:00000000\t\t0\n";

const IGMP6: &str = "1    lo              ff020000000000000000000000000001     1 0000000C 0\n\
    12   eth0            ff020000000000000000000000000012     2 00000004 0\n";

#[test]
#[cfg(target_endian = "little")]
fn groups_of_ipv4_belong_to_the_interface_above_them() {
    let group = |text: &str| text.parse::<IpAddr>().unwrap();
    let all: Vec<_> = v4(IGMP).collect();
    assert_eq!(all, [(1, group("224.0.0.1")), (12, group("224.0.0.18")), (12, group("224.0.0.1"))]);
}

#[test]
fn groups_of_ipv6_stand_behind_their_interface() {
    let all: Vec<_> = v6(IGMP6).collect();
    assert_eq!(all, [(1, "ff02::1".parse().unwrap()), (12, "ff02::12".parse().unwrap())]);
}

#[test]
fn what_cannot_be_read_is_no_membership() {
    for text in ["", "nonsense", "\t\t120000E0", "x eth0 ff020000000000000000000000000012", "12 eth0"] {
        assert_eq!(v4(text).chain(v6(text)).count(), 0, "{text}");
    }
}
