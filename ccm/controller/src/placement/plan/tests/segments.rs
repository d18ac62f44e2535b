//! Segments of sets of addresses.

use std::net::IpAddr;

use windlass_ipam::{AddressRange, AddressSet};

use super::*;

#[test]
fn what_can_be_announced_of_a_set_is_what_can_be_of_each_address_at_the_same_segments() {
    let mut cluster = Cluster::new(&[
        ("n1", "eth0", &["192.0.2.1/24", "2001:db8::1/64"]),
        ("n2", "eth0", &["192.0.2.2/24", "192.0.3.2/25", "2001:db8::2/64"]),
        ("n3", "eth1", &["192.0.2.65/26", "192.0.4.3/32", "10.0.0.3/8"]),
    ]);
    cluster.node("n4", false);
    cluster.networks("n4", &[("eth1", &["192.0.2.241/28"]), ("eth2", &["2001:db8:1::4/64"])], &[]);
    let named = ["eth0", "eth1", "eth2", "eth9", "eth*"];
    for name in named {
        let interfaces = vec![name.to_owned()];
        cluster.announce(name, AnnouncementSpec { interfaces, ..AnnouncementSpec::default() });
    }
    let announcements = Announcements::new(cluster.announcements.iter());
    let topology = Topology::new(&cluster.nodes, cluster.networks.clone(), &announcements);
    let ranges =
        ["192.0.1.250-192.0.4.9", "2001:db8::fff0-2001:db8::1:5", "2001:db8:1::/124", "203.0.113.0/29"];
    let ranges: Vec<AddressRange> = ranges.map(|range| range.parse().expect("a range")).into();
    let all = AddressSet::from_iter(ranges);
    let each = |set: &AddressSet| -> Vec<IpAddr> {
        let numbers = |(first, last): (IpAddr, IpAddr)| match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                (first.to_bits()..=last.to_bits()).map(|bits| IpAddr::V4(bits.into())).collect::<Vec<_>>()
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                (first.to_bits()..=last.to_bits()).map(|bits| IpAddr::V6(bits.into())).collect()
            }
            (_, _) => panic!("of one family"),
        };
        set.ranges().flat_map(numbers).collect()
    };
    assert_eq!(announcements.iter().count(), named.len() + 1, "each, and that of no name");
    for announcement in announcements.iter() {
        let of = topology.segments(announcement);
        let (found, segments) = of.find_all(&all);
        let mut expected = (AddressSet::default(), BTreeSet::new());
        for address in each(&all) {
            if let Some(segment) = of.find(address) {
                expected.0.insert_address(address);
                expected.1.insert(segment);
            }
        }
        assert_eq!((found, segments), expected, "{:?}", announcement.name);
    }
}
