//! Who answers for a VIP when a host asks.

use std::collections::BTreeSet;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::interop::wire::PacketTap;
use crate::lab::{Host, LIMIT};

/// After the first answer, so long for a second one.
const SECOND_ANSWER: Duration = Duration::from_millis(150);

/// Waits until exactly this host answers the host's question for the VIP.
pub(crate) fn await_sole_answer(case: &str, client: &Host, vip: IpAddr, mac: [u8; 6]) {
    await_answers(case, client, vip, [mac]);
}

/// Waits until exactly these hosts answer the host's question for the VIP.
pub(crate) fn await_answers<const N: usize>(case: &str, client: &Host, vip: IpAddr, macs: [[u8; 6]; N]) {
    let (wanted, deadline) = (BTreeSet::from(macs), Instant::now() + LIMIT);
    loop {
        let answers = who_answers(client, vip);
        if answers == wanted {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{case}: {vip} is answered by {answers:02x?}, not by {wanted:02x?}"
        );
    }
}

/// The hosts that answer when the host's kernel asks who has the VIP.
fn who_answers(client: &Host, vip: IpAddr) -> BTreeSet<[u8; 6]> {
    let packet_tap = PacketTap::on(client);
    client.ip("neigh flush dev eth0");
    client.run(move || {
        let any = if vip.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
        // Port 9, discard: what matters is the question before it.
        UdpSocket::bind(any).unwrap().send_to(b"x", (vip, 9)).unwrap();
    });
    let mut answers = BTreeSet::new();
    let mut deadline = Instant::now() + Duration::from_secs(1);
    while let Some(frame) = packet_tap.frame(deadline) {
        if let Some(mac) = answer(&frame, vip) {
            if answers.is_empty() {
                deadline = Instant::now() + SECOND_ANSWER;
            }
            answers.insert(mac);
        }
    }
    answers
}

/// The sender of an answer to a question for `vip`; what is told unasked is none.
fn answer(frame: &[u8], vip: IpAddr) -> Option<[u8; 6]> {
    let mac = frame.get(6..12)?.try_into().ok()?;
    let told = match vip {
        IpAddr::V4(vip) => {
            let arp_reply = frame.get(12..14)? == [8, 6] && frame.get(20..22)? == [0, 2];
            arp_reply && frame[0] & 1 == 0 && frame.get(28..32)? == vip.octets()
        }
        IpAddr::V6(vip) => {
            let neighbour_advert =
                frame.get(12..14)? == [0x86, 0xdd] && frame.get(20)? == &58 && frame.get(54)? == &136;
            let solicited = frame.get(58)? & 0x40 != 0;
            neighbour_advert && solicited && frame.get(62..78)? == vip.octets()
        }
    };
    told.then_some(mac)
}
