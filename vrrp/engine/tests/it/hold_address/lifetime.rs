//! What becomes of VIPs on an interface when the engine cannot say so any more, and by what they are known.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use windlass_engine::{Engine, Event, Hold, Options, RouterConfig, State};

use crate::body::Body;
use crate::lab::{Host, Lan, VIP, address, await_some, require_root, router_v6};

use super::{await_bound, binding, line, marks, shown};

const MARK: &str = "WINDLASS_TEST_LIFETIME";
/// The default.
const TAG: u8 = 0x57;

/// Not a test of its own: the process that the tests below kill or stop.
#[test]
#[ignore = "the body of other tests' process"]
fn router_process() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    let mut options = Options::new(|event| {
        if let Event::StateChanged { state: State::Active, .. } = event {
            println!("\n{MARK}");
        }
    });
    options.guard = true;
    let engine = Engine::start(options).unwrap();
    engine.apply(vec![RouterConfig { accept: false, ..binding(0, 1) }]);
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Starts it and waits until it is Active.
fn process_on(host: &Host) -> Body {
    let mut process = Body::start(host, "hold_address::lifetime::router_process", MARK, "1");
    process.next();
    process
}

#[test]
fn the_kernel_removes_the_vip_of_a_killed_or_frozen_process_and_guards_the_hosts_sockets_meanwhile() {
    if !require_root() {
        return;
    }
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let lan = Lan::new(2);
        let (client, host) = (&lan.hosts[0], &lan.hosts[1]);
        let _listener = host.run(|| TcpListener::bind("0.0.0.0:8022").unwrap());
        host.ip("addr add 192.0.2.1/24 dev eth0");
        client.ip("addr del 192.0.2.1/24 dev eth0");
        client.ip("addr add 192.0.2.9/24 dev eth0");
        let process = process_on(host);
        await_bound(host);
        process.signal(signal);
        let connects = || {
            let to = SocketAddr::new(VIP.into(), 8022);
            client.run(move || TcpStream::connect_timeout(&to, Duration::from_millis(50)).is_ok())
        };
        await_some("end of the VIP", || {
            assert!(!connects(), "a socket of the host is open on the VIP");
            line(host, VIP.into(), 32).is_none().then_some(())
        });
    }
}

#[test]
fn the_tag_is_on_the_vip_at_first_and_after_renewals() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1).with_link_local();
    let host = &lan.hosts[0];
    let node = host.engine();
    let v6 = RouterConfig { hold: Hold::Address, ..router_v6(0, 1) };
    let vips: Vec<_> = v6.addresses.iter().copied().chain([VIP.into()]).collect();
    node.engine.apply(vec![binding(0, 1), v6]);
    let tagged = || {
        let marks = marks::all(host);
        let prefix = |vip: &IpAddr| if vip.is_ipv4() { 32 } else { 128 };
        let found: Vec<_> = vips.iter().filter_map(|vip| marks.get(&(*vip, prefix(vip)))).copied().collect();
        assert!(found.iter().all(|mark| *mark == TAG), "{marks:?}");
        (found.len() == vips.len()).then_some(())
    };
    await_some("VIPs on the interface", tagged);
    let since = Instant::now();
    // What is there for longer than it lives has been renewed.
    await_some("renewals", || {
        tagged().expect("all VIPs stay");
        (since.elapsed() > Duration::from_secs(4)).then_some(())
    });
}

#[test]
fn only_addresses_of_hosts_with_the_engines_own_tag_are_swept_at_the_start() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1);
    let host = &lan.hosts[0];
    let table: [(&str, u8, u8, bool); 8] = [
        ("192.0.2.60", 32, TAG, true),
        ("2001:db8::60", 128, TAG, true),
        ("192.0.2.61", 32, 0, false),
        ("2001:db8::61", 128, 0, false),
        ("192.0.2.62", 32, TAG - 1, false),
        ("192.0.2.63", 32, 0xbb, false),
        ("192.0.2.64", 26, TAG, false),
        ("2001:db8:1::64", 64, TAG, false),
    ];
    for (address, prefix, mark, _) in table {
        marks::add(host, address.parse().unwrap(), prefix, mark);
    }
    let before = marks::all(host);
    let node = host.engine();
    let is_swept = |address: &(IpAddr, u8)| {
        table
            .iter()
            .any(|(text, prefix, _, swept)| *swept && (text.parse(), *prefix) == (Ok(address.0), address.1))
    };
    let left: Vec<_> = before.keys().filter(|address| !is_swept(address)).copied().collect();
    await_some("sweep", || {
        let found: Vec<_> = marks::all(host).into_keys().collect();
        assert!(left.iter().all(|address| found.contains(address)), "{found:?}");
        (!found.iter().any(is_swept)).then_some(())
    });
    node.engine.shutdown();
    assert!(left.iter().all(|address| marks::all(host).contains_key(address)));
}

/// Which source address the host takes on the way to this one.
fn source(host: &Host, to: &str) -> String {
    let line = format!("route get {to}");
    let output = host.run(move || Command::new("ip").args(line.split(' ')).output().expect("run `ip`"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.split_once(" src ").and_then(|(_, rest)| rest.split(' ').next()).expect("a source").to_owned()
}

// shows: field-reports F-57
#[test]
fn the_vip_is_neither_the_first_address_nor_a_source_whatever_comes_and_goes_beside_it() {
    if !require_root() {
        return;
    }
    let lan = Lan::new(1).with_link_local();
    let host = &lan.hosts[0];
    host.ip("addr add 2001:db8::1/64 dev eth0 nodad");
    host.ip("route add default via 192.0.2.254");
    host.ip("-6 route add default via 2001:db8::fe");
    let node = host.engine();
    let v6 = RouterConfig { hold: Hold::Address, ..router_v6(0, 1) };
    node.engine.apply(vec![binding(0, 1), v6]);
    let check = || {
        await_bound(host);
        await_some("IPv6 VIP", || line(host, "2001:db8::50".parse().unwrap(), 128));
        let first = shown(host).into_iter().next().unwrap();
        assert!(first.contains(&format!(" {}/24 ", address(0))), "{first}");
        for (to, expected) in [
            ("192.0.2.9", "192.0.2.1"),
            ("203.0.113.9", "192.0.2.1"),
            ("2001:db8::9", "2001:db8::1"),
            ("2001:db8:9::9", "2001:db8::1"),
        ] {
            assert_eq!(source(host, to), expected, "to {to}");
        }
    };
    check();
    // As DHCP does with a new lease.
    host.ip("addr add 198.51.100.7/24 dev eth0");
    check();
    host.ip("addr del 198.51.100.7/24 dev eth0");
    check();
    // The own address goes and comes: the VIP, which would come first, goes with it.
    host.ip("addr del 192.0.2.1/24 dev eth0");
    await_some("no VIP", || {
        let vip = format!(" {VIP}/");
        (!shown(host).iter().any(|line| line.contains(&vip))).then_some(())
    });
    host.ip("addr add 192.0.2.1/24 dev eth0");
    host.ip("route add default via 192.0.2.254");
    await_some("the own address before the VIP", || {
        let shown = shown(host);
        (shown.len() > 1 && shown[0].contains(" 192.0.2.1/24 ") && shown[1].contains(&VIP.to_string()))
            .then_some(())
    });
    check();
}
