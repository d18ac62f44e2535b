use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

use windlass_kernel::connections::{Connection, ConnectionKey, Inserted, Tracking, Transport};

use super::*;
use crate::guard::Guarded;
use crate::lab::{Host, require_root};

#[test]
fn a_connection_was_silent_for_as_long_as_the_shortest_of_the_limits_allows() {
    let limits = [86_400, 300, 120, 60];
    let table = [
        (86_399, Some(0)),
        (86_390, Some(9)),
        (86_400, None),
        // Whether it was silent for a day or spoke just now, and waits to be answered, is not known.
        (299, Some(0)),
        (290, Some(9)),
        (119, Some(0)),
        (0, Some(59)),
    ];
    for (expires_in, expected) in table {
        assert_eq!(silent_for(expires_in, &limits), expected.map(Duration::from_secs), "{expires_in}");
    }
    assert_eq!(silent_for(5, &[]), None);
}

#[test]
fn what_is_forgotten_is_named_by_its_number_too() {
    let tuple = Attributes::new().nest(1, &Attributes::new().bytes(1, &[192, 0, 2, 3]));
    let entry = Attributes::new().nest(TUPLE, &tuple).number(8, 0x10).number(ID, 77);
    let named = this(entry.as_bytes()).unwrap();
    assert_eq!(named, Attributes::new().nest(TUPLE, &tuple).number(ID, 77));
    assert_eq!(
        this(Attributes::new().nest(TUPLE, &tuple).as_bytes()),
        None,
        "it would be whichever has these ends"
    );
}

#[test]
fn windows_are_judged_unless_both_directions_say_otherwise() {
    let entry = |flags: &[(u16, u8)]| {
        let tcp = flags.iter().fold(Attributes::new(), |tcp, (way, flags)| tcp.bytes(*way, &[*flags, 0xff]));
        Attributes::new().nest(PROTOCOL_INFO, &Attributes::new().nest(TCP_INFO, &tcp))
    };
    let table = [
        (&[(4, 0x0a), (5, 0x08)][..], false),
        (&[(4, 0x0a), (5, 0x03)], true),
        (&[(4, 0x03), (5, 0x08)], true),
        (&[(4, 0x08)], true),
        (&[], true),
    ];
    for (flags, judged) in table {
        assert_eq!(judges_windows(entry(flags).as_bytes()), judged, "{flags:?}");
    }
    assert!(judges_windows(&[]));
}

// shows: threats T-19
/// Somebody who can send from a client's address says something that fits nothing, right after a VIP came here.
#[test]
fn a_made_up_packet_ends_no_connection_that_another_node_told() {
    if !require_root() {
        return;
    }
    Host::new().run(|| {
        let mut guard = Guard::install("windlass", &Guarded::default()).unwrap();
        for order in ["link set lo up", "addr add 192.0.2.50/32 dev lo"] {
            assert!(Command::new("ip").args(order.split(' ')).status().unwrap().success());
        }
        let vip: SocketAddr = ([192, 0, 2, 50], 80).into();
        let mut tracking = Tracking::open().unwrap();
        let told = Connection {
            key: ConnectionKey { transport: Transport::Tcp, client: ([192, 0, 2, 3], 40_000).into(), vip },
            backend: ([192, 0, 2, 4], 8080).into(),
            source: (vip.ip(), 40_000).into(),
        };
        let outcomes = tracking.insert(&[told], Duration::from_mins(10)).unwrap();
        assert_eq!(outcomes, [Inserted::New]);
        // One that this kernel has seen begin.
        let listener = TcpListener::bind((vip.ip(), 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (client, server) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let mut strays = |from: SocketAddr, to: SocketAddr| {
            let element = format!("{} . {} . {} . {}", from.ip(), from.port(), to.ip(), to.port());
            let element = format!("add element inet windlass strays4 {{ {element} }}");
            assert!(Command::new("nft").arg(element).status().unwrap().success());
            guard.forget_strays(&[(vip.ip(), Duration::ZERO)].into()).unwrap()
        };
        assert_eq!(strays(told.key.client, vip), 0);
        assert_eq!(tracking.are_open(&[told.key]).unwrap(), [true]);
        assert_eq!(strays(client, server), 1, "as its packets that come are of another");
    });
}
