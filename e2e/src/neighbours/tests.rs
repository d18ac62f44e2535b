use super::*;

#[test]
fn solicitation_goes_to_the_group_of_the_last_three_octets() {
    let address = "2001:db8::12:3456".parse().unwrap();
    assert_eq!(solicited_node(address), "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap());
}

#[test]
fn only_an_advertisement_of_the_address_tells_a_link_layer_address() {
    let address: Ipv6Addr = "2001:db8::200".parse().unwrap();
    let mac = Mac([2, 0, 0, 0, 0, 11]);
    let mut packet = vec![ADVERTISEMENT, 0, 0, 0, 0x60, 0, 0, 0];
    packet.extend(address.octets());
    assert_eq!(advertised(&packet), None, "it has no option");
    packet.extend([14, 1, 0, 0, 0, 0, 0, 0]); // some other option
    packet.extend([TARGET_LINK_LAYER_ADDRESS, 1]);
    packet.extend(mac.0);
    assert_eq!(advertised(&packet), Some(Advertised { address, mac, solicited: true }));
    assert_eq!(advertised(&packet[..30]), None, "an option is cut off");
    assert_eq!(advertised(&packet[..20]), None);
    packet[0] = SOLICITATION;
    assert_eq!(advertised(&packet), None);
    let unasked = advertised(&advertisement(address, mac));
    assert_eq!(unasked, Some(Advertised { address, mac, solicited: false }));
}

#[test]
fn only_an_arp_reply_to_this_host_counts() {
    let vip = Ipv4Addr::new(192, 0, 2, 200);
    let asker = Asker { mac: Mac([2, 0, 0, 0, 0, 101]), address: Ipv4Addr::new(192, 0, 2, 101) };
    assert_eq!(asker.answer(&asker.question(vip)), None);
    let node = [2, 0, 0, 0, 0, 11];
    let mut answer =
        [&asker.mac.0[..], &node, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &node, &vip.octets()].concat();
    answer.extend([&asker.mac.0[..], &asker.address.octets()].concat());
    assert_eq!(asker.answer(&answer), Some((vip.into(), Mac(node))));
    answer[..6].fill(0xff);
    assert_eq!(asker.answer(&answer), None, "an announcement");
}
