use std::collections::BTreeMap;
use std::time::Duration;

use netlink_packet_core::Emitable;
use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;
use windlass_kernel::netlink::{Link, Refusal};
use windlass_vrrp::{Family, Time, Vrid};

use super::device::{DeviceId, Mark, SavedSettings, mark_of};
use super::device_ops::{DeviceOps, DeviceRefusals, WantedDevices, device_ops};
use super::errors::{refused_to_make, refused_to_open, refused_to_set};
use super::messages::{Setting, set};
use super::settings::ArpSettings;

const TAG: u8 = 0x57;

fn id(vrid: u8) -> DeviceId {
    DeviceId { parent: 2, family: Family::V4, vrid: Vrid::new(vrid).unwrap() }
}

fn link(alias: Option<&str>, mac: [u8; 6]) -> Link {
    Link {
        index: 9,
        name: "wl4-2-7".to_owned(),
        mac: Some(mac),
        mtu: 1500,
        ethernet: true,
        up: false,
        running: false,
        kind: Some("macvlan".to_owned()),
        parent: Some(2),
        master: None,
        alias: alias.map(str::to_owned),
    }
}

#[test]
fn a_name_says_family_interface_and_vrid_and_has_15_bytes_at_most() {
    assert_eq!(id(7).name(), "wl4-2-7");
    let long = DeviceId { parent: u32::MAX, family: Family::V6, vrid: Vrid::new(255).unwrap() };
    assert_eq!(long.name().len(), 15);
}

#[test]
fn a_mark_is_read_as_it_was_written() {
    for (saved, text) in [
        (SavedSettings::default(), "windlass:57"),
        (SavedSettings { arp_ignore: Some(0), arp_announce: None }, "windlass:57 arp_ignore=0"),
        (
            SavedSettings { arp_ignore: Some(0), arp_announce: Some(1) },
            "windlass:57 arp_ignore=0 arp_announce=1",
        ),
    ] {
        let mark = Mark { tag: TAG, saved };
        assert_eq!(mark.to_string(), text);
        assert_eq!(text.parse(), Ok(mark));
    }
    for foreign in ["", "windlass", "windlass:", "windlass:5", "windlass:57x", "windlass:zz", "uplink"] {
        assert_eq!(foreign.parse::<Mark>(), Err(()), "{foreign}");
    }
}

#[test]
fn a_device_is_known_by_its_mark_and_a_marked_one_by_its_address() {
    let mac = [0, 0, 0x5e, 0, 1, 7];
    assert_eq!(DeviceId::of(&link(Some("windlass:57"), mac), TAG), Some(id(7)));
    assert_eq!(DeviceId::of(&link(Some("windlass:58"), mac), TAG), None, "another engine's");
    assert_eq!(DeviceId::of(&link(None, mac), TAG), None, "not marked");
    assert_eq!(DeviceId::like(&link(None, mac)), Some(id(7)));
    assert_eq!(DeviceId::like(&link(None, [0, 0, 0x5e, 0, 3, 7])), None);
    assert_eq!(DeviceId::like(&link(None, [0, 0, 0x5e, 0, 1, 0])), None, "no VRID");
    let dummy = Link { kind: Some("dummy".to_owned()), ..link(Some("windlass:57"), mac) };
    assert_eq!(mark_of(&dummy, TAG), None);
}

fn wanted_devices(wanted: &[(u8, bool)], kept: &[u8]) -> WantedDevices {
    WantedDevices {
        wanted: wanted.iter().map(|(vrid, up)| (id(*vrid), *up)).collect(),
        kept: kept.iter().map(|vrid| id(*vrid)).collect(),
    }
}

fn known(devices: &[(u8, bool)]) -> BTreeMap<DeviceId, bool> {
    devices.iter().map(|(vrid, up)| (id(*vrid), *up)).collect()
}

#[test]
fn devices_are_made_opened_closed_and_removed_as_wished() {
    let known = known(&[(1, false), (2, true), (3, true), (4, true), (5, false)]);
    let wanted_devices = wanted_devices(&[(1, true), (2, true), (3, false), (6, true)], &[4]);
    let ops = device_ops(&known, &wanted_devices, &DeviceRefusals::default(), Time::default());
    let expected = DeviceOps {
        make: vec![id(6)],
        open: vec![id(1)],
        close: vec![id(3), id(4)],
        remove: vec![id(5)],
        more: false,
    };
    assert_eq!(ops, expected);
}

#[test]
fn what_waits_in_the_kernel_is_done_a_few_at_a_time() {
    let up: Vec<(u8, bool)> = (1..=6).map(|vrid| (vrid, true)).collect();
    let round =
        device_ops(&known(&up), &wanted_devices(&[], &[]), &DeviceRefusals::default(), Time::default());
    assert_eq!((round.remove.len(), round.more), (4, true));
    let wanted: Vec<(u8, bool)> = (1..=20).map(|vrid| (vrid, false)).collect();
    let round =
        device_ops(&known(&[]), &wanted_devices(&wanted, &[]), &DeviceRefusals::default(), Time::default());
    assert_eq!((round.make.len(), round.more), (16, true));
}

#[test]
fn what_was_refused_waits_twice_as_long_each_time_and_holds_up_nothing_else() {
    let mut refusals = DeviceRefusals::default();
    let (start, wanted_devices) = (Time::default(), wanted_devices(&[(1, false), (2, false)], &[]));
    refusals.note(id(1), "no".to_owned(), start);
    let make = |refusals: &DeviceRefusals, at: u64| {
        device_ops(&known(&[]), &wanted_devices, refusals, start + Duration::from_millis(at)).make
    };
    assert_eq!(make(&refusals, 199), [id(2)]);
    assert_eq!(make(&refusals, 200), [id(1), id(2)]);
    assert_eq!(refusals.due(start), Some(start + Duration::from_millis(200)));
    refusals.note(id(1), "no".to_owned(), start);
    assert_eq!(make(&refusals, 399), [id(2)]);
    assert_eq!(make(&refusals, 400), [id(1), id(2)]);
    assert_eq!(refusals.reason(id(1)), Some("no"));
    refusals.clear(id(1));
    assert_eq!(make(&refusals, 0), [id(1), id(2)]);
}

#[test]
fn only_what_answers_for_vips_is_changed_and_only_what_was_not_changed_since_is_restored() {
    let arp = |ignore, announce| ArpSettings { ignore, announce };
    let (changes, saved) = arp(0, 1).required_changes();
    assert_eq!(changes, [(Setting::ArpIgnore, 1), (Setting::ArpAnnounce, 2)]);
    assert_eq!(saved, SavedSettings { arp_ignore: Some(0), arp_announce: Some(1) });
    assert_eq!(arp(1, 2).restored(saved), [(Setting::ArpIgnore, 0), (Setting::ArpAnnounce, 1)]);
    assert_eq!(arp(2, 2).restored(saved), [(Setting::ArpAnnounce, 1)]);
    for ignore in [1, 2, 8] {
        assert_eq!(arp(ignore, 2).required_changes(), (Vec::new(), SavedSettings::default()));
    }
    assert_eq!(
        arp(3, 2).required_changes().0,
        [(Setting::ArpIgnore, 1)],
        "3 answers for addresses of other interfaces"
    );
}

#[test]
fn a_setting_of_zero_is_sent_like_any_other() {
    let (RouteNetlinkMessage::SetLink(message), 0) = set(3, &[(Setting::ArpIgnore, 0)]) else { panic!() };
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut bytes);
    // IFLA_AF_SPEC { AF_INET { IFLA_INET_CONF, nested { 19: 0 } } }
    let attribute = |kind: u16, length: u16| [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    let expected =
        [attribute(26, 20), attribute(2, 16), attribute(1 | 1 << 15, 12), attribute(19, 8), vec![0; 4]]
            .concat();
    assert_eq!(bytes[16..], expected);
}

#[test]
fn refusals_name_the_device_the_reason_and_the_remedy() {
    let refusal = |errno| Refusal { errno, message: None };
    let missing = refused_to_make(id(7), "eth0", &refusal(Errno::EOPNOTSUPP));
    assert!(missing.contains("macvlan wl4-2-7 on eth0") && missing.contains("modprobe macvlan"), "{missing}");
    let denied = refused_to_make(id(7), "eth0", &refusal(Errno::EPERM));
    assert!(denied.contains("CAP_NET_ADMIN"), "{denied}");
    let port = refused_to_make(id(7), "eth0", &refusal(Errno::EBUSY));
    assert!(port.contains("eth0 cannot carry macvlan devices"), "{port}");
    let loud = refused_to_set(id(7), &refusal(Errno::ENOENT));
    assert!(loud.contains("CONFIG_NET_SCHED"), "{loud}");
    let taken = refused_to_open(id(7), "eth0", &refusal(Errno::EADDRINUSE));
    assert!(taken.contains("another device on eth0"), "{taken}");
}
