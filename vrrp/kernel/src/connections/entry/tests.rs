use proptest::prelude::*;

use super::*;
use crate::netfilter::attributes::Attributes;

fn tuple(protocol: u8, source: [u8; 4], destination: [u8; 4], ports: [u16; 2]) -> Attributes {
    let addresses = Attributes::new().bytes(1, &source).bytes(2, &destination);
    let ports = Attributes::new()
        .bytes(1, &[protocol])
        .bytes(2, &ports[0].to_be_bytes())
        .bytes(3, &ports[1].to_be_bytes());
    Attributes::new().nest(1, &addresses).nest(2, &ports)
}

fn entry(protocol: u8) -> Attributes {
    let (client, vip, backend) = ([192, 0, 2, 3], [192, 0, 2, 50], [192, 0, 2, 4]);
    Attributes::new()
        .nest(1, &tuple(protocol, client, vip, [40_000, 80]))
        .nest(2, &tuple(protocol, backend, vip, [8080, 5000]))
}

#[test]
fn an_entry_is_the_connection_of_its_two_tuples() {
    for (protocol, transport) in [(6, Transport::Tcp), (17, Transport::Udp)] {
        let entry = Entry::parse(entry(protocol).number(ID, 7).number(TIMEOUT, 60).as_bytes()).unwrap();
        assert_eq!(
            entry.connection(),
            Connection {
                key: ConnectionKey {
                    transport,
                    client: "192.0.2.3:40000".parse().unwrap(),
                    vip: "192.0.2.50:80".parse().unwrap(),
                },
                backend: "192.0.2.4:8080".parse().unwrap(),
                source: "192.0.2.50:5000".parse().unwrap(),
            }
        );
        assert!(!entry.is_untranslated());
        assert_eq!(
            (entry.id, entry.expires_in, entry.status, entry.tcp_state),
            (Some(7), Some(60), None, None)
        );
    }
}

#[test]
fn other_protocols_and_zones_are_passed_over() {
    assert_eq!(Entry::parse(entry(132).as_bytes()), None, "SCTP");
    assert_eq!(Entry::parse(entry(6).bytes(ZONE, &[0, 1]).as_bytes()), None, "zone 1");
    assert!(Entry::parse(entry(6).bytes(ZONE, &[0, 0]).as_bytes()).is_some(), "the default zone");
    assert_eq!(Entry::parse(&[]), None);
}

#[test]
fn what_lasts_and_what_is_open_is_told_apart() {
    let with = |status: u32, state: u8| {
        let tcp = Attributes::new().nest(1, &Attributes::new().bytes(1, &[state]));
        Entry::parse(entry(6).number(STATUS, status).nest(PROTOCOL_INFO, &tcp).as_bytes()).unwrap()
    };
    let open: Vec<u8> = (0..=10).filter(|state| with(0, *state).is_open()).collect();
    assert_eq!(open, [ESTABLISHED, FIN_WAIT, CLOSE_WAIT]);
    let established: Vec<u8> = (0..=10).filter(|state| with(0, *state).is_established()).collect();
    assert_eq!(established, [ESTABLISHED], "of the others a side is closed");
    assert!(Entry::parse(entry(17).as_bytes()).unwrap().is_established(), "UDP has no end");
    assert!(with(ASSURED | DESTINATION_NAT | CONFIRMED, ESTABLISHED).is_translated_and_lasting());
    assert!(!with(ASSURED | CONFIRMED, ESTABLISHED).is_translated_and_lasting(), "not translated");
    assert!(!with(DESTINATION_NAT | CONFIRMED, ESTABLISHED).is_translated_and_lasting(), "not assured");
    assert!(Entry::parse(entry(17).as_bytes()).unwrap().is_open(), "UDP has no end");
    assert!(!Entry::parse(entry(6).as_bytes()).unwrap().is_open(), "a state that is not told");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))] // 0.066 ms each

    #[test]
    fn any_bytes_are_an_entry_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Entry::parse(&bytes);
        let _ = Entry::parse(Attributes::new().bytes(1, &bytes).bytes(2, &bytes).as_bytes());
    }
}
