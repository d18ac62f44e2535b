use proptest::prelude::*;

use super::super::entry::Entry as E;
use super::super::wire::ROOM;
use super::*;

fn any_connection() -> impl Strategy<Value = Connection> {
    let endpoint = |ipv6: bool| {
        (any::<[u8; 16]>(), any::<u16>()).prop_map(move |(octets, port)| {
            let [a, b, c, d, ..] = octets;
            let ip: IpAddr = if ipv6 { octets.into() } else { [a, b, c, d].into() };
            SocketAddr::new(ip, port)
        })
    };
    (any::<bool>(), any::<bool>(), 0..3_u8).prop_flat_map(move |(ipv6, tcp, form)| {
        let transport = if tcp { Transport::Tcp } else { Transport::Udp };
        (endpoint(ipv6), endpoint(ipv6), endpoint(ipv6), endpoint(ipv6)).prop_map(
            move |(client, vip, backend, source)| {
                let source = match form {
                    0 => client,
                    1 => SocketAddr::new(vip.ip(), source.port()),
                    _ => source,
                };
                Connection { key: ConnectionKey { transport, client, vip }, backend, source }
            },
        )
    })
}

fn any_entry() -> impl Strategy<Value = Entry> {
    (any_connection(), any::<bool>())
        .prop_map(|(connection, put)| if put { Entry::Put(connection) } else { Entry::Ended(connection.key) })
}

fn any_missing(up_to: u64) -> impl Strategy<Value = Vec<Missing>> {
    proptest::collection::vec((1..100_u64, 0..100_u64), 0..64).prop_map(move |steps| {
        let mut last = up_to;
        let range = |(gap, length): (u64, u64)| {
            let first = last + gap;
            last = first + length;
            Missing { first, last }
        };
        steps.into_iter().map(range).collect()
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    let data = prop_oneof![
        proptest::collection::vec(any_entry(), 0..=17).prop_map(Data::Update),
        any::<u32>().prop_map(Data::SnapshotBegin),
        (any::<u32>(), proptest::collection::vec(any_connection(), 0..=17))
            .prop_map(|(snapshot, connections)| Data::SnapshotPart(snapshot, connections)),
        any::<u32>().prop_map(Data::SnapshotEnd),
    ];
    let summary = (any::<u32>(), any::<u64>()).prop_map(|(count, digest)| Summary { count, digest });
    let alive = (any::<[u64; 3]>(), any::<[bool; 2]>(), proptest::option::of(summary)).prop_map(
        |([beat, ticket, last], [attached, behind], summary)| Alive {
            beat,
            ticket,
            attached,
            last,
            behind,
            summary,
        },
    );
    let body = prop_oneof![
        (1..u64::MAX, any::<bool>(), data).prop_map(|(sequence, behind, data)| Body::Data {
            sequence,
            behind,
            data
        }),
        alive.prop_map(Body::Alive),
        (0..u64::MAX / 2).prop_flat_map(|up_to| (any_missing(up_to), any::<bool>())
            .prop_map(move |(missing, full)| Body::Acknowledge { up_to, missing, full })),
        (any::<u64>(), 0..6_usize)
            .prop_map(|(ticket, reason)| Body::Resync { ticket, reason: Reason::ALL[reason] }),
    ];
    (any::<[u64; 3]>(), body).prop_map(|([start, random, challenge], body)| Message {
        epoch: Epoch { start, random },
        challenge,
        body,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))] // 0.26 ms each

    #[test]
    fn what_is_encoded_is_decoded_the_same(message in any_message()) {
        let bytes = message.encode().unwrap();
        prop_assert!(bytes.len() <= MAX_MESSAGE);
        prop_assert_eq!(Message::decode(&bytes), Ok(message));
    }

    #[test]
    fn what_is_cut_or_longer_is_refused(message in any_message(), cut in any::<prop::sample::Index>(), more in 1..9_usize) {
        let mut bytes = message.encode().unwrap();
        let cut = cut.index(bytes.len());
        prop_assert!(Message::decode(&bytes[..cut]).is_err());
        bytes.extend(vec![0; more]);
        prop_assert_eq!(Message::decode(&bytes), Err(DecodeError::Trailing(more)));
    }

    #[test]
    fn what_is_decoded_is_encoded_the_same(
        message in any_message(),
        altered in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = message.encode().unwrap();
        for (at, byte) in altered {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes[6] &= 0x7f;
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert_eq!(message.write().0, bytes);
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..1500), kind in 0..9_u8) {
        let _ = Message::decode(&bytes);
        let mut bytes = bytes;
        for (byte, head) in bytes.iter_mut().zip([b'W', b'L', b'C', b'N', 1, kind, 0]) {
            *byte = head;
        }
        if let Err(error) = Message::decode(&bytes) {
            prop_assert_eq!(error.label(), DecodeError::LABELS[error.index()]);
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn an_entry_is_as_long_as_it_says(entry in any_entry()) {
        let mut bytes = Vec::new();
        entry.write(&mut bytes);
        prop_assert_eq!(bytes.len(), entry.length());
        prop_assert!(bytes.len() <= E::LONGEST);
    }
}

#[test]
fn a_datagram_has_room_for_60_connections_of_ipv4_and_22_of_ipv6() {
    let fit = |vip_number, form| ROOM / Entry::Put(connection(vip_number, form, 1)).length();
    // By the VIP, the client itself, an address of its own.
    assert_eq!([0, 1, 2].map(|form| fit(0, form)), [60, 66, 51]);
    assert_eq!([0, 1, 2].map(|form| fit(1, form)), [23, 23, 18]);
}

#[test]
fn a_message_that_is_too_long_is_not_encoded() {
    let epoch = Epoch::default();
    let message =
        |data| Message { epoch, challenge: 0, body: Body::Data { sequence: 1, behind: false, data } };
    let part = |count| message(Data::SnapshotPart(1, vec![connection(0, 2, 1); count]));
    assert!(part(51).encode().is_ok());
    assert_eq!(part(52).encode(), Err(TooLong { entries: 52, length: 1396 }));
    let update = message(Data::Update(vec![Entry::Ended(connection(0, 2, 1).key); 256]));
    assert_eq!(update.encode(), Err(TooLong { entries: 256, length: 3624 }));
}

#[test]
fn what_is_wrong_is_refused_by_its_name() {
    let entry = |bytes: &[u8]| {
        let mut datagram = Message {
            epoch: Epoch::default(),
            challenge: 0,
            body: Body::Data { sequence: 1, behind: false, data: Data::Update(Vec::new()) },
        }
        .encode()
        .unwrap();
        datagram[7] = 1;
        datagram.extend(bytes);
        datagram
    };
    let altered = |at: usize, byte: u8| {
        let mut datagram = entry(&[0; 14]);
        datagram[41] = 6;
        datagram[at] = byte;
        datagram
    };
    let tcp = |flags: u8, rest: &[u8]| entry(&[&[flags, 6], rest].concat());
    for (what, datagram, expected) in [
        ("empty", vec![], DecodeError::Truncated { length: 0, wanted: 4 }),
        ("head alone", altered(0, b'W')[..30].to_vec(), DecodeError::Truncated { length: 30, wanted: 32 }),
        ("long", vec![0; 1401], DecodeError::TooLong { length: 1401, limit: 1400 }),
        ("magic", altered(0, b'V'), DecodeError::Magic(0x564c_434e)),
        ("version", altered(4, 2), DecodeError::Version(2)),
        ("kind 0", altered(5, 0), DecodeError::Kind(0)),
        ("kind", altered(5, 8), DecodeError::Kind(8)),
        ("flags", altered(6, 2), DecodeError::Flags(2)),
        ("count of a begin", altered(5, 2), DecodeError::Count(1)),
        ("sequence", altered(39, 0), DecodeError::Sequence),
        ("count", altered(7, 0), DecodeError::Trailing(14)),
        ("transport", altered(41, 1), DecodeError::Transport(1)),
        ("flags of an entry", altered(40, 0x10), DecodeError::EntryFlags(0x10)),
        ("source of an ended one", altered(40, 4), DecodeError::EntryFlags(4)),
        ("source of no form", tcp(0x0d, &[0; 24]), DecodeError::EntryFlags(0x0d)),
        ("source spelled out that is the client", tcp(1, &[0; 24]), DecodeError::LongSource),
        ("source by the VIP that is the client", tcp(5, &[0; 20]), DecodeError::LongSource),
        (
            "ended in a snapshot",
            {
                let mut part = entry(&[&[0, 0, 0, 1, 0, 6][..], &[0; 12]].concat());
                part[5] = 3;
                part
            },
            DecodeError::EndedInSnapshot,
        ),
        (
            "summary that is not announced",
            {
                let mut alive = entry(&[1; 28]);
                (alive[5], alive[7]) = (5, 0);
                alive
            },
            DecodeError::Summary,
        ),
        (
            "missing before it",
            {
                let mut acknowledge = entry(&[0; 16]);
                acknowledge[5] = 6;
                acknowledge
            },
            DecodeError::Missing { first: 0, last: 0 },
        ),
        (
            "reason",
            {
                let mut resync = entry(&[7]);
                (resync[5], resync[7]) = (7, 0);
                resync
            },
            DecodeError::Reason(7),
        ),
    ] {
        assert_eq!(Message::decode(&datagram), Err(expected), "{what}");
    }
}
