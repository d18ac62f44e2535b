//! VIPs that move, with the virtual MAC address, from node to node.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread::JoinHandle;

use windlass_engine::State;

use super::scene::{Client, Family, await_device, await_vip, config, lan, neighbour, own_address, serve};
use crate::lab::{Capture, Host, await_some, require_root};
use crate::lab6::advertisement_of;

/// Asks the VIP who is there until this host answers, and sees to it that the client's neighbour entry stays as it was.
fn await_answer(client: &Host, asking: &Client, family: Family, number: u8) {
    asking.await_answer(number);
    let entry = neighbour(client, family);
    assert!(entry.contains(family.virtual_mac()), "{entry}");
}

// shows: rfc9568 T17
#[test]
fn traffic_follows_the_vip_while_the_clients_neighbour_entry_stays() {
    if !require_root() {
        return;
    }
    for family in Family::BOTH {
        let lan = lan(3);
        let client = &lan.hosts[2];
        for (n, host) in (0..2).zip(&lan.hosts) {
            serve(host, family, n);
        }
        let heard = claims_until_mark(Capture::on(client), family.vip());
        let (one, two) = (lan.hosts[0].active(config(family, 0, 2)), lan.hosts[1].engine());
        two.engine.apply(vec![config(family, 1, 2)]);
        let asking = Client::on(client, family);
        await_answer(client, &asking, family, 0);
        // The cable first: nothing is said. Then back, and a good-bye.
        lan.pull_cable(0);
        await_answer(client, &asking, family, 1);
        lan.plug_cable(0);
        await_answer(client, &asking, family, 0);
        one.engine.apply(Vec::new());
        await_answer(client, &asking, family, 1);
        one.engine.apply(vec![config(family, 0, 2)]);
        await_answer(client, &asking, family, 0);
        // All that anybody ever said of the VIP was the virtual MAC address.
        client.ip("neigh flush dev eth0");
        await_answer(client, &asking, family, 0);
        // A mark behind all that came.
        let mark = SocketAddr::new(own_address(family, 0), 7);
        client.run(move || ask_for_nothing(mark));
        assert_eq!(heard.join().unwrap(), BTreeSet::from([family.virtual_mac().to_owned()]));
    }
}

/// Collects the link-layer addresses that anybody names as the VIP's, as they come.
fn claims_until_mark(capture: Capture, vip: IpAddr) -> JoinHandle<BTreeSet<String>> {
    std::thread::spawn(move || {
        let mut claims = BTreeSet::new();
        loop {
            let frame = capture.await_frame("frame", |frame| Some(frame.to_vec()));
            claims.extend(claim(&frame, vip));
            if bears_port_7(&frame) {
                return claims;
            }
        }
    })
}

/// Sends something to the port 7.
fn ask_for_nothing(to: SocketAddr) {
    let any = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    UdpSocket::bind(any).unwrap().send_to(b"mark", to).unwrap();
}

fn bears_port_7(frame: &[u8]) -> bool {
    let header = match frame.get(12..14) {
        Some([8, 0]) => 34,
        Some([0x86, 0xdd]) => 54,
        _ => return false,
    };
    frame.get(header - if header == 34 { 11 } else { 34 }) == Some(&17)
        && frame.get(header + 2..header + 4) == Some(&[0, 7])
}

/// The link-layer addresses that a frame names as the VIP's, its own source among them.
fn claim(frame: &[u8], vip: IpAddr) -> Vec<String> {
    let (from, named) = match vip {
        IpAddr::V4(vip) if frame.get(12..14) == Some(&[8, 6]) && frame.get(28..32) == Some(&vip.octets()) => {
            (&frame[6..12], &frame[22..28])
        }
        IpAddr::V6(vip) => match advertisement_of(vip)(frame) {
            Some((_, _, mac)) => return vec![text(&frame[6..12]), text(&mac)],
            None => return Vec::new(),
        },
        IpAddr::V4(_) => return Vec::new(),
    };
    vec![text(from), text(named)]
}

fn text(mac: &[u8]) -> String {
    mac.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

// shows: rfc9568 T17
#[test]
fn who_asks_the_virtual_mac_address_itself_is_answered() {
    if !require_root() {
        return;
    }
    for family in Family::BOTH {
        let lan = lan(2);
        let client = &lan.hosts[1];
        serve(&lan.hosts[0], family, 0);
        let node = lan.hosts[0].engine();
        node.engine.apply(vec![config(family, 0, 1)]);
        await_vip(&lan.hosts[0], family, true);
        let asking = Client::on(client, family);
        await_answer(client, &asking, family, 0);
        let replies = node.status().counters.replies;
        // In this state the kernel asks the address that it knows, and nobody else.
        client.ip(&format!(
            "neigh change {} lladdr {} nud probe dev eth0",
            family.vip(),
            family.virtual_mac()
        ));
        await_some("entry that was confirmed", || {
            neighbour(client, family).contains("REACHABLE").then_some(())
        });
        node.await_status("another reply", |status| status.counters.replies > replies);
    }
}

#[test]
fn two_actives_that_meet_hear_each_other() {
    if !require_root() {
        return;
    }
    for family in Family::BOTH {
        let lan = lan(3);
        for (n, host) in (0..2).zip(&lan.hosts) {
            serve(host, family, n);
        }
        let (one, two) = (lan.hosts[0].engine(), lan.hosts[1].engine());
        one.engine.apply(vec![config(family, 0, 2)]);
        two.engine.apply(vec![config(family, 1, 2)]);
        one.await_state(State::Active);
        two.await_status("Backup of the other", |status| {
            status.state == State::Backup && status.active.is_some()
        });
        lan.part(0, true);
        lan.part(1, true);
        two.await_state(State::Active);
        await_vip(&lan.hosts[1], family, true);
        lan.part(0, false);
        lan.part(1, false);
        two.await_state(State::Backup);
        await_vip(&lan.hosts[1], family, false);
        await_device(&lan.hosts[1], &family.device(&lan.hosts[1]), false);
        await_answer(&lan.hosts[2], &Client::on(&lan.hosts[2], family), family, 0);
    }
}

// shows: rfc9568 T16, T17
#[test]
fn a_backup_takes_nothing_that_is_for_the_virtual_mac_address() {
    if !require_root() {
        return;
    }
    for family in Family::BOTH {
        let lan = lan(3);
        let (backup, client) = (&lan.hosts[1], &lan.hosts[2]);
        serve(backup, family, 1);
        let (one, two) = (lan.hosts[0].engine(), backup.engine());
        one.engine.apply(vec![config(family, 0, 2)]);
        two.engine.apply(vec![config(family, 1, 2)]);
        one.await_state(State::Active);
        two.await_status("Backup of the other", |status| {
            status.state == State::Backup && status.active.is_some()
        });
        let asking = Client::on(client, family);
        asking.ask();
        // A switch that is mistaken about the virtual MAC address, and does not learn better from the adverts of the Active.
        let mac = family.virtual_mac();
        lan.bridge.run(move || {
            let words = ["fdb", "replace", mac, "dev", "port1", "master", "static", "sticky"];
            assert!(std::process::Command::new("bridge").args(words).status().unwrap().success());
        });
        client.ip(&format!("neigh replace {} lladdr {mac} nud permanent dev eth0", family.vip()));
        let heard = Capture::on(backup);
        for _ in 0..5 {
            assert_eq!(asking.ask(), None);
        }
        heard.await_frame("question at the Backup", |frame| {
            let port = super::scene::PORT.to_be_bytes();
            frame.windows(2).any(|pair| pair == port).then_some(())
        });
        // The same way works as soon as it is Active.
        one.engine.shutdown();
        asking.await_answer(1);
    }
}
