//! What is for a port that no owner of a VIP has, beside a Service that has named the VIP for itself.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol as Kind, SockAddr, Socket, Type};
use windlass_dataplane::guard::{Checked, Guarded};
use windlass_engine::{Protocol, ProtocolPort, Restrictions};

use crate::lab::{VIP, await_some, require_root};

use super::proxy::Mode;
use super::scene::{Scene, TABLE, VIP6, ask_udp, both_held, connect, echoes, pings, run};

const WEB: ProtocolPort = ProtocolPort { protocol: Protocol::Tcp, port: 80 };
const DNS: ProtocolPort = ProtocolPort { protocol: Protocol::Udp, port: 53 };
/// Long enough for an answer, where there is one.
const SHORT: Duration = Duration::from_secs(2);
/// kube-proxy serves it as well as 53 and 80: here it is that of a Service that does not own the VIP.
const FOREIGN_TCP: u16 = 80;
const FOREIGN_UDP: u16 = 53;

fn vips() -> [IpAddr; 2] {
    [VIP.into(), VIP6.into()]
}

/// Both VIPs, of which the owners have these ports.
fn owning(ports: &[ProtocolPort]) -> Guarded {
    let mut restrictions = Restrictions::default();
    for vip in vips() {
        restrictions.only_ports(vip, ports.iter().copied());
    }
    Guarded { restrictions: Arc::new(restrictions), ..both_held() }
}

// shows: threats T-02
#[test]
fn a_port_of_no_owner_is_refused_before_kube_proxy_gives_it_away_in_every_mode() {
    if !require_root() {
        return;
    }
    for mode in Mode::all() {
        let scene = Scene::new();
        mode.serve(scene.node());
        let mut guard = scene.guard();
        let senders = [("client", scene.client()), ("node", scene.node())];
        for vip in vips() {
            for (_, host) in senders {
                await_some("an answer", || connect(host, vip, FOREIGN_TCP).ok());
                await_some("an answer", || ask_udp(host, vip, FOREIGN_UDP).ok());
            }
        }
        // The owners' ports, and whether TCP 80 and UDP 53 are served.
        let table: [(&[ProtocolPort], bool, bool); 5] = [
            (&[DNS], false, true),
            (&[WEB], true, false),
            (&[ProtocolPort { port: 81, ..WEB }, ProtocolPort { port: 80, ..DNS }], false, false),
            (&[WEB, DNS], true, true),
            // Not known.
            (&[], true, true),
        ];
        for (ports, tcp, udp) in table {
            guard.update(&owning(ports)).unwrap();
            assert_eq!(guard.full_check().unwrap(), Checked::Intact);
            for vip in vips() {
                for (who, host) in senders {
                    let what = format!("{mode:?} {vip} from the {who}, {ports:?}");
                    match connect(host, vip, FOREIGN_TCP) {
                        Ok(stream) => assert!(tcp && echoes(&stream), "{what}"),
                        Err(error) => {
                            assert_eq!((tcp, error.kind()), (false, ErrorKind::ConnectionRefused), "{what}");
                        }
                    }
                    assert_eq!(ask_udp(host, vip, FOREIGN_UDP).is_ok(), udp, "{what}");
                }
                // Served it would get its own packets back; that it is refused needs no service.
                if !tcp {
                    let error = connect(&scene.pod, vip, FOREIGN_TCP).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{mode:?} {vip} from a pod");
                }
                assert!(pings(scene.client(), vip, 20), "{mode:?} {vip}: ping is answered");
            }
        }
    }
}

#[test]
fn connections_to_the_owners_ports_outlive_every_change_of_others_and_those_to_foreign_ones_end() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    Mode::Nftables.serve(scene.node());
    let mut guard = scene.guard();
    let connections = vips().map(|vip| await_some("a connection", || connect(scene.client(), vip, 80).ok()));
    for ports in [&[WEB] as &[_], &[WEB, DNS], &[WEB, ProtocolPort { port: 443, ..WEB }], &[], &[WEB]] {
        guard.update(&owning(ports)).unwrap();
        assert!(connections.iter().all(echoes), "{ports:?}");
    }
    guard.update(&owning(&[DNS])).unwrap();
    assert!(!connections.iter().any(echoes), "80 is no owner's any more");
}

#[test]
fn a_large_datagram_to_an_owners_port_comes_through_in_fragments_and_one_to_another_does_not() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    Mode::Nftables.serve(scene.node());
    let mut guard = scene.guard();
    let large = |vip: IpAddr| {
        scene.client().run(move || {
            let socket = UdpSocket::bind(if vip.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
            socket.connect((vip, 53)).unwrap();
            socket.set_read_timeout(Some(SHORT)).unwrap();
            // The refusal is told by ICMP, to either call, or to none for a fragment. Two fragments; the pod echoes the first bytes.
            socket.send(&[7; 2500]).and_then(|_| socket.recv(&mut [0; 16])).is_ok()
        })
    };
    for vip in vips() {
        await_some("an answer", || ask_udp(scene.client(), vip, 53).ok());
        guard.update(&owning(&[DNS])).unwrap();
        assert!(large(vip), "{vip}");
        guard.update(&owning(&[WEB])).unwrap();
        assert!(!large(vip), "{vip}");
        guard.update(&both_held()).unwrap();
    }
}

/// No pod speaks SCTP here: what is refused is counted.
#[test]
fn sctp_is_refused_like_the_others() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let mut guard = scene.guard();
    // This packet is no connection's, so it is dropped there as invalid: all counters count.
    let refused = || -> u64 {
        let chain = run(scene.node(), &format!("nft list chain inet {TABLE} refuse"), "");
        let counters = chain.split("packets ").skip(1);
        counters.map(|rest| rest.split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    let send = |port: u8| {
        scene.client().run(move || {
            let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Kind::from(132))).unwrap();
            let to = SockAddr::from(SocketAddr::new(VIP.into(), 0));
            socket.send_to(&[0, 9, 0, port, 0, 0, 0, 0, 0, 0, 0, 0], &to).unwrap();
        });
    };
    // Only what the first chain refuses is looked at: the VIP is not among those that are refused later.
    let only_ports = |ports| Guarded { vips: [].into(), held: [].into(), ..owning(ports) };
    guard.update(&only_ports(&[ProtocolPort { protocol: Protocol::Sctp, port: 80 }])).unwrap();
    send(81);
    await_some("a refused packet", || (refused() == 1).then_some(()));
    send(80);
    guard.update(&only_ports(&[WEB])).unwrap();
    send(80);
    await_some("another refused packet", || (refused() == 2).then_some(()));
}
