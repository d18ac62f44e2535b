use super::*;
use crate::connections::entry::{ASSURED, CLOSE, DESTINATION_NAT, ESTABLISHED, SEEN_REPLY};
use crate::connections::{ConnectionKey, Transport};

fn connection() -> Connection {
    let [client, vip, backend, source] =
        ["192.0.2.3:40000", "192.0.2.50:80", "192.0.2.4:8080", "192.0.2.50:5000"]
            .map(|text| text.parse().unwrap());
    Connection { key: ConnectionKey { transport: Transport::Tcp, client, vip }, backend, source }
}

fn entry(original: Tuple, reply: Tuple, tcp_state: u8) -> Entry {
    Entry {
        original,
        reply,
        status: Some(ASSURED | DESTINATION_NAT),
        tcp_state: Some(tcp_state),
        id: Some(1),
        expires_in: Some(60),
    }
}

#[test]
fn what_has_the_place_of_a_connection_is_told_apart() {
    let ours = connection();
    let (client, backend) = (Tuple::of_key(&ours.key), answers(&ours));
    let itself = entry(client, backend, ESTABLISHED);
    let closed = entry(client, backend, CLOSE);
    let elsewhere = entry(client, Tuple { source: ([192, 0, 2, 9], 1).into(), ..backend }, ESTABLISHED);
    let reversed = entry(backend, client, ESTABLISHED);
    let forwarded = entry(backend.inverse(), backend, ESTABLISHED);
    // The backend spoke after the forwarded one was deleted.
    let picked_up = entry(backend, backend.inverse(), ESTABLISHED);
    let another = entry(Tuple { source: ([192, 0, 2, 9], 1).into(), ..client }, backend, ESTABLISHED);
    let over = Entry { tcp_state: Some(CLOSE), ..another };
    let vip = Tuple { destination: ([192, 0, 2, 51], 80).into(), ..client };
    let of_another_vip = entry(vip, backend, ESTABLISHED);
    // As if the backend were a client of the VIP.
    let of_backend = entry(backend, Tuple { source: ([192, 0, 2, 9], 1).into(), ..client }, ESTABLISHED);
    let as_entry = |blocking, entry| Obstacle::Entry(blocking, entry);
    let table = [
        ([None, None], Obstacle::Gone),
        ([Some(itself), None], Obstacle::Itself),
        ([Some(closed), None], as_entry(Blocking::Earlier, closed)),
        ([Some(elsewhere), None], as_entry(Blocking::Earlier, elsewhere)),
        ([Some(reversed), None], as_entry(Blocking::Other, reversed)),
        ([None, Some(forwarded)], as_entry(Blocking::Forwarded, forwarded)),
        ([None, Some(picked_up)], as_entry(Blocking::Forwarded, picked_up)),
        ([None, Some(another)], as_entry(Blocking::SameAnswers, another)),
        ([None, Some(of_another_vip)], as_entry(Blocking::Other, of_another_vip)),
        ([None, Some(of_backend)], as_entry(Blocking::Other, of_backend)),
        ([None, Some(over)], as_entry(Blocking::Earlier, over)),
    ];
    for (found, expected) in table {
        assert_eq!(obstacle(&ours, found), expected, "{found:?}");
    }
}

#[test]
fn the_kernels_refusals_are_told_apart() {
    let of = |errno| refusal(&io::Error::from_raw_os_error(errno));
    assert_eq!(of(libc::EEXIST), Inserted::Clash(Blocking::Other));
    assert_eq!(of(libc::ENOMEM), Inserted::TableFull);
    assert_eq!(of(libc::EINVAL), Inserted::Refused { errno: libc::EINVAL });
    assert!(of(libc::EINVAL).to_string().contains("Invalid argument"));
}

#[test]
fn each_way_to_insert_displaces_what_it_says() {
    let all = [Blocking::Forwarded, Blocking::SameAnswers, Blocking::Earlier, Blocking::Other];
    for (yields, expected) in [
        (Yields::Nothing, [false, false, false, false]),
        (Yields::Earlier, [false, false, true, false]),
        (Yields::EarlierOrSameAnswers, [false, true, true, false]),
        (Yields::EarlierOrForwarded, [true, false, true, false]),
    ] {
        assert_eq!(all.map(|blocking| yields.includes(blocking)), expected, "{yields:?}");
    }
}

#[test]
fn a_connection_is_this_nodes_own_if_its_socket_has_answered_what_another_node_forwards() {
    let ours = connection();
    let backend = answers(&ours);
    let forwarded = Entry { status: Some(SEEN_REPLY), ..entry(backend.inverse(), backend, ESTABLISHED) };
    let table = [
        (forwarded, true),
        // The socket spoke: the entry begins with its packets.
        (Entry { status: Some(0), ..entry(backend, backend.inverse(), ESTABLISHED) }, true),
        // This node served the VIP.
        (entry(Tuple::of_key(&ours.key), backend, ESTABLISHED), true),
        // Nobody has answered: any sender on the LAN can cause that.
        (Entry { status: Some(0), ..forwarded }, false),
        (Entry { status: None, ..forwarded }, false),
        (Entry { tcp_state: Some(CLOSE), ..forwarded }, false),
        // Of another client.
        (
            entry(
                Tuple { source: ([192, 0, 2, 9], 1).into(), ..Tuple::of_key(&ours.key) },
                backend,
                ESTABLISHED,
            ),
            false,
        ),
    ];
    for (found, expected) in table {
        assert_eq!(is_accepted_here(&ours, &found), expected, "{found:?}");
    }
}
