//! A process that is killed or frozen while it has the VIP.

use std::io::Read as _;

use nix::sys::signal::Signal;
use socket2::{Domain, Protocol, Socket, Type};
use windlass_engine::{Engine, Event, Options, State};

use super::scene::{
    Client, Family, addresses, await_device, await_vip, config, device, lan, neighbour, parameter, serve,
};
use crate::body::Body;
use crate::lab::{Host, Lan, Node, await_some, require_root};
use crate::lab6::ask_for;

const MARK: &str = "WINDLASS_TEST_VICTIM";

/// Not a test of its own: the process of the tests below. Prints states and reasons until its input ends.
#[test]
#[ignore = "the body of other tests' process"]
fn router_process() {
    let Some(family) = std::env::var_os(MARK) else { return };
    let family = if family == "V6" { Family::V6 } else { Family::V4 };
    let options = Options::new(|event| {
        if let Event::StateChanged { state, reason, .. } = event {
            println!("\n{MARK} {state}: {reason}");
        }
    });
    let engine = Engine::start(options).unwrap();
    engine.apply(vec![config(family, 0, 2)]);
    std::io::stdin().read_line(&mut String::new()).unwrap();
    engine.shutdown();
}

fn start(host: &Host, family: Family) -> Body {
    Body::start(host, "hold_vmac::victim::router_process", MARK, &format!("{family:?}"))
}

fn await_line(victim: &mut Body, beginning: &str) {
    while !victim.next().starts_with(beginning) {}
}

/// Frames that a host receives or sends by `eth0`.
struct Tap(Socket);

impl Tap {
    fn on(host: &Host) -> Self {
        Self(host.run(|| {
            let every = i32::from(u16::try_from(libc::ETH_P_ALL).unwrap().to_be());
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(every))).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        }))
    }

    /// How many bear the virtual MAC address as their source.
    fn said_in_its_name(&self, family: Family) -> usize {
        let mut buffer = [0; 2048];
        let mut count = 0;
        while let Ok(length) = (&self.0).read(&mut buffer) {
            let frame = &buffer[..length];
            let source: Vec<String> = frame[6..12].iter().map(|byte| format!("{byte:02x}")).collect();
            count += usize::from(source.join(":") == family.virtual_mac());
        }
        count
    }
}

#[test]
fn a_killed_process_falls_silent_at_once_its_vip_goes_by_itself_and_its_device_is_swept() {
    if !require_root() {
        return;
    }
    for family in Family::BOTH {
        let lan = lan(3);
        let (host, client) = (&lan.hosts[0], &lan.hosts[2]);
        let (mut victim, peer, asking) = serving(&lan, family);
        let name = family.device(host);
        await_device(host, &name, true);

        victim.signal(Signal::SIGKILL);
        victim.await_end();
        // Parted from each other, the client between them: what the dead router's host would say is all that it sees.
        lan.part(0, true);
        lan.part(1, true);
        let tap = Tap::on(host);
        // While the VIP is still bound.
        for _ in 0..3 {
            provoke(client, family);
        }
        assert_eq!(peer.await_state(State::Active), windlass_engine::TransitionReason::ActiveSilent);
        asking.await_answer(1);
        let entry = neighbour(client, family);
        assert!(entry.contains(family.virtual_mac()), "{entry}");
        await_vip(host, family, false);
        await_device(host, &name, true);

        for _ in 0..3 {
            provoke(client, family);
        }
        asking.await_answer(1);
        assert_eq!(tap.said_in_its_name(family), 0, "the dead router's device spoke");

        // Only what bears the mark goes.
        host.ip("link add wl4-2-99 link eth0 type macvlan mode bridge");
        let next = host.engine();
        await_some("sweep", || device(host, &name).is_none().then_some(()));
        assert!(device(host, "wl4-2-99").is_some());
        let arp = || {
            ["arp_ignore", "arp_announce"].map(|name| parameter(host, &format!("net/ipv4/conf/eth0/{name}")))
        };
        await_some("settings as before the killed engine", || (arp() == ["0", "0"]).then_some(()));
        drop(next);
    }
}

#[test]
fn a_frozen_process_is_silent_and_listens_before_it_takes_its_place_back() {
    if !require_root() {
        return;
    }
    for family in Family::BOTH {
        let lan = lan(3);
        let (host, client) = (&lan.hosts[0], &lan.hosts[2]);
        let (mut victim, peer, asking) = serving(&lan, family);
        victim.signal(Signal::SIGSTOP);
        peer.await_state(State::Active);
        asking.await_answer(1);
        await_vip(host, family, false);
        assert!(addresses(host, &family.device(host)).is_empty());
        asking.await_answer(1);
        victim.signal(Signal::SIGCONT);
        await_line(&mut victim, "backup: not run for so long");
        await_line(&mut victim, "active");
        peer.await_state(State::Backup);
        asking.await_answer(0);
        let entry = neighbour(client, family);
        assert!(entry.contains(family.virtual_mac()), "{entry}");
    }
}

/// The victim, Active on the first host, its Backup on the second, and a client on the third that it has answered.
fn serving(lan: &Lan, family: Family) -> (Body, Node, Client) {
    for (n, host) in (0..2).zip(&lan.hosts) {
        serve(host, family, n);
    }
    let mut victim = start(&lan.hosts[0], family);
    await_line(&mut victim, "active");
    let peer = lan.hosts[1].engine();
    peer.engine.apply(vec![config(family, 1, 2)]);
    peer.await_status("Backup of the other", |status| status.active.is_some());
    let asking = Client::on(&lan.hosts[2], family);
    asking.await_answer(0);
    (victim, peer, asking)
}

/// The client asks for the VIP as one that has never heard of it.
fn provoke(client: &Host, family: Family) {
    client.ip("neigh flush dev eth0");
    ask_for(client, family.vip());
}
