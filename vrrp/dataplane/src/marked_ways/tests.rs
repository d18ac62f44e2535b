use windlass_kernel::port::Protocol;

use super::*;

#[test]
fn kernels_that_ignore_ports_where_they_route_again_are_known_by_their_release() {
    for release in ["6.18.44-fc", "5.13.0", "5.15.0-91-generic", "5.14.0-362.el9.x86_64", "10.0.1"] {
        assert!(routes_marked_by_port(release), "{release}");
    }
    for release in ["5.12.19", "5.10.0-28-amd64", "4.18.0-513.el8", "5", "", "x.6.1"] {
        assert!(!routes_marked_by_port(release), "{release}");
    }
}

/// As rules of an engine before an update are: it led all that a server's address sent.
#[test]
fn a_rule_of_a_port_is_told_from_that_of_another_port_and_from_that_of_all() {
    let owner = Owner { tag: 0x50, marks: MarkMask::LOWEST };
    let server: IpAddr = "192.0.2.11".parse().unwrap();
    let port = |port| Some(ProtocolPort { protocol: Protocol::Tcp, port });
    let sources = [(server, None), (server, port(6443)), (server, port(9345))];
    for source in sources {
        for other in sources {
            let rule = owner.rule_from(Family::V4, 3, source);
            assert_eq!(
                owner.is_rule_from(&rule, Family::V4, 3, other),
                source == other,
                "{source:?} {other:?}"
            );
        }
    }
}
