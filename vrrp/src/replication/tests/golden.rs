//! The bytes of each kind, once and for all: nodes of two releases meet during every upgrade.

use super::*;

/// Of bytes written in lines, blanks between them.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

fn sockets(texts: [&str; 4]) -> Connection {
    let [client, vip, backend, source] = texts.map(|text| text.parse().unwrap());
    Connection { key: ConnectionKey { transport: Transport::Tcp, client, vip }, backend, source }
}

fn by_vip() -> Connection {
    sockets(["198.51.100.7:40000", "203.0.113.1:443", "10.244.1.5:8443", "203.0.113.1:50000"])
}

fn by_client() -> Connection {
    let mut connection =
        sockets(["198.51.100.7:40001", "203.0.113.1:53", "10.244.1.5:53", "198.51.100.7:40001"]);
    connection.key.transport = Transport::Udp;
    connection
}

fn spelled_out() -> Connection {
    sockets(["[2001:db8::7]:40000", "[2001:db8:1::1]:443", "[fd00::5]:8443", "[fd00::1]:60000"])
}

fn data(sequence: u64, behind: bool, data: Data) -> Body {
    Body::Data { sequence, behind, data }
}

#[test]
fn each_kind_has_its_bytes() {
    let epoch = Epoch { start: 0x0102_0304_0506_0708, random: 0x1112_1314_1516_1718 };
    let head = "0102030405060708 1112131415161718 2122232425262728";
    let entry_by_vip = "05 06 c6336407 9c40 cb007101 01bb 0af40105 20fb c350";
    for (body, lead, rest) in [
        (
            data(3, true, Data::Update(vec![Entry::Put(by_vip()), Entry::Ended(by_client().key)])),
            "574c434e 01 01 01 02",
            format!("0000000000000003 {entry_by_vip} 00 11 c6336407 9c41 cb007101 0035"),
        ),
        (data(1, false, Data::SnapshotBegin(9)), "574c434e 01 02 00 00", "0000000000000001 00000009".into()),
        (
            data(2, false, Data::SnapshotPart(9, vec![by_client(), spelled_out()])),
            "574c434e 01 03 00 02",
            "0000000000000002 00000009 \
             09 11 c6336407 9c41 cb007101 0035 0af40105 0035 \
             03 06 20010db8000000000000000000000007 9c40 20010db8000100000000000000000001 01bb \
             fd000000000000000000000000000005 20fb fd000000000000000000000000000001 ea60"
                .into(),
        ),
        (data(4, false, Data::SnapshotEnd(9)), "574c434e 01 04 00 00", "0000000000000004 00000009".into()),
        (
            Body::Alive(Alive {
                beat: 5,
                ticket: 6,
                attached: true,
                last: 4,
                behind: false,
                summary: Some(Summary { count: 2, digest: 0x3132_3334_3536_3738 }),
            }),
            "574c434e 01 05 06 00",
            "0000000000000004 0000000000000005 0000000000000006 00000002 3132333435363738".into(),
        ),
        (
            Body::Alive(Alive { beat: 5, ticket: 6, attached: false, last: 0, behind: true, summary: None }),
            "574c434e 01 05 01 00",
            "0000000000000000 0000000000000005 0000000000000006 00000000 0000000000000000".into(),
        ),
        (
            Body::Acknowledge { up_to: 4, missing: vec![Missing { first: 6, last: 8 }], full: false },
            "574c434e 01 06 00 01",
            "0000000000000004 0000000000000006 0000000000000008".into(),
        ),
        (
            Body::Acknowledge { up_to: 4, missing: vec![], full: true },
            "574c434e 01 06 08 00",
            "0000000000000004".into(),
        ),
        (
            Body::Resync { ticket: 6, reason: Reason::Diverged },
            "574c434e 01 07 00 00",
            "0000000000000006 04".into(),
        ),
    ] {
        let message = Message { epoch, challenge: 0x2122_2324_2526_2728, body };
        let expected = hex(&format!("{lead} {head} {rest}"));
        assert_eq!(message.encode().unwrap(), expected, "{message:?}");
        assert_eq!(Message::decode(&expected), Ok(message));
    }
}

/// As a second writing of its rule in Python has it.
#[test]
fn the_digest_of_a_connection_is_as_documented() {
    let expected = [0xc6c7_9013_9cab_c4fc, 0x2595_9aec_6a3d_3098, 0xe99a_e5c6_14f5_51b6];
    assert_eq!([by_vip(), by_client(), spelled_out()].map(|connection| digest(&connection)), expected);
}

#[test]
fn each_reason_has_its_label() {
    for (index, reason) in Reason::ALL.into_iter().enumerate() {
        assert_eq!((reason.index(), reason.label()), (index, Reason::LABELS[index]));
    }
}
