use proptest::prelude::*;

use super::*;
use crate::lab::unhex;

/// As Linux 6.18 tells them, little-endian: a connection of IPv4 whose handshake is over, and one of IPv6 in LAST_ACK.
const ESTABLISHED_V4: [&str; 5] = [
    "c400000000010000000000000000000002000000340001801400018008000100c000020308000200c00002321c000280",
    "050001000600000006000200e8ec00000600030000500000340002801400018008000100c000020408000200c0000232",
    "1c0002800500010006000000060002001f90000006000300049c000008000c00ea9aa6a408000300000001be08000700",
    "00069780300004802c0001800500010003000000050002000a000000050003000a000000060004002300000006000500",
    "23000000",
];
const LAST_ACK_V6: [&str; 6] = [
    "f40000000001000000000000000000000a0000004c0001802c0001801400030020010db8000000000000000000000003",
    "1400040020010db80000000000000000000000501c000280050001000600000006000200828c00000600030000500000",
    "4c0002802c0001801400030020010db80000000000000000000000041400040020010db8000000000000000000000050",
    "1c0002800500010006000000060002001f900000060003003431000008000c004374a88c08000300000001be08000700",
    "0000001e300004802c0001800500010006000000050002000a000000050003000a000000060004002700000006000500",
    "33000000",
];
/// Where the first has the state of TCP, and the number of the message.
const STATE_V4: usize = 160;
const NUMBER: usize = 4;

fn vips() -> BTreeSet<IpAddr> {
    ["192.0.2.50", "2001:db8::50"].map(|vip| vip.parse().unwrap()).into()
}

fn heard(bytes: &[u8]) -> Vec<Event> {
    decode(bytes, &vips()).collect()
}

fn connection_v4() -> Connection {
    Connection {
        key: ConnectionKey {
            transport: Transport::Tcp,
            client: "192.0.2.3:59628".parse().unwrap(),
            vip: "192.0.2.50:80".parse().unwrap(),
        },
        backend: "192.0.2.4:8080".parse().unwrap(),
        source: "192.0.2.50:1180".parse().unwrap(),
    }
}

#[test]
#[cfg(target_endian = "little")]
fn what_the_kernel_tells_is_read() {
    let (v4, v6) = (unhex(&ESTABLISHED_V4.concat()), unhex(&LAST_ACK_V6.concat()));
    assert_eq!(heard(&v4), [Event::Established(connection_v4())]);
    let key = ConnectionKey {
        transport: Transport::Tcp,
        client: "[2001:db8::3]:33420".parse().unwrap(),
        vip: "[2001:db8::50]:80".parse().unwrap(),
    };
    assert_eq!(heard(&v6), [Event::Ended(key)]);
    assert_eq!(heard(&[v4.clone(), v6].concat()).len(), 2);
    assert_eq!(decode(&v4, &BTreeSet::new()).collect::<Vec<_>>(), [], "not a VIP of ours");
}

#[test]
#[cfg(target_endian = "little")]
fn each_state_of_tcp_means_what_it_is() {
    let established = Event::Established(connection_v4());
    let ended = Event::Ended(connection_v4().key);
    // NONE, SYN_SENT, SYN_RECV, ESTABLISHED, FIN_WAIT, CLOSE_WAIT, LAST_ACK, TIME_WAIT, CLOSE, SYN_SENT2.
    let closing = Event::Closing(connection_v4().key);
    let [established, closing, end] = [established, closing, ended].map(Some);
    let table = [None, None, None, established, closing, closing, end, None, end, None];
    for (state, expected) in (0..).zip(table) {
        let mut bytes = unhex(&ESTABLISHED_V4.concat());
        bytes[STATE_V4] = state;
        assert_eq!(heard(&bytes), Vec::from_iter(expected), "{state}");
        bytes[NUMBER] = 2;
        assert_eq!(heard(&bytes), [ended], "deleted in the state {state}");
    }
}

/// Bytes that were received, cut short and changed in places.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop_oneof![Just(ESTABLISHED_V4.concat()), Just(LAST_ACK_V6.concat())];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8);
    (whole, any::<prop::sample::Index>(), changes).prop_map(|(whole, end, changes)| {
        let mut bytes = unhex(&whole);
        bytes.truncate(end.index(bytes.len()) + 1);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))] // 0.078 ms each

    #[test]
    fn whatever_is_received_is_read_to_an_end(bytes in damaged()) {
        prop_assert!(heard(&bytes).len() <= bytes.len());
    }

    #[test]
    fn garbage_is_no_event(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        prop_assert_eq!(heard(&bytes), []);
    }
}
