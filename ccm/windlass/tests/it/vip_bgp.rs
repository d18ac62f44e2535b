//! `windlass vip` on three hosts behind FRR.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::frr::{Router, require_frr};
use crate::lab::{Host, await_some};
use crate::support::{BINARY, Folder, Running};

const VIP: &str = "203.0.113.100";
const HOSTS: [&str; 3] = ["192.0.2.11", "192.0.2.12", "192.0.2.13"];
const PORT: u16 = 8080;
/// Length of the AS path of a good route, and of a degraded one.
const GOOD: u64 = 1;
const DEGRADED: u64 = 6;

/// A host with a server and `windlass vip`.
struct Node {
    address: &'static str,
    host: Host,
    folder: Folder,
    vip: Option<Running>,
}

impl Node {
    fn start(router: &Host, number: usize, address: &'static str) -> Self {
        let node = Self { address, host: Host::new(), folder: Folder::new(), vip: None };
        router.ip(&format!("link add port{number} type veth peer name eth0 netns {}", node.host.tid()));
        router.ip(&format!("link set port{number} master br0 up"));
        for line in ["link set lo up", "link set eth0 up", &format!("addr add {address}/24 dev eth0")] {
            node.host.ip(line);
        }
        node.host.ip("route add default via 192.0.2.1");
        let listener = node.host.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(address.as_bytes());
            }
        });
        node.set_fit(true);
        node.configure("64512:100");
        let mut command = Command::new(BINARY);
        command.args(["vip", "--config"]).arg(node.file("vip.yaml"));
        command.arg("--socket").arg(node.file("vip.sock"));
        let vip = node.host.run(|| Running::start(command));
        Self { vip: Some(vip), ..node }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lets its check pass or fail.
    fn set_fit(&self, is_fit: bool) {
        let file = self.file("fit");
        if is_fit { fs::write(file, "").unwrap() } else { fs::remove_file(file).unwrap() }
    }

    /// Writes the settings with this community.
    fn configure(&self, community: &str) {
        let (new, fit) = (self.file("new.yaml"), self.file("fit"));
        let text = format!(
            "bgp:
  localASN: 64512
  peers: [{{gateway: IPv4, dynamicASN: External, holdTimeSeconds: 180, bfd: {{}}}}]
vips:
- address: {VIP}
  protocols: [bgp]
  ports: [{PORT}]
  communities: ['{community}']
  checks: [{{command: {{command: [/usr/bin/test, -e, {}]}}, intervalMs: 200}}]
",
            fit.display()
        );
        fs::write(&new, text).unwrap();
        fs::rename(new, self.file("vip.yaml")).unwrap();
    }

    fn probe(&self, page: &str) -> String {
        let output =
            Command::new(BINARY).args(["probe", page, "--socket"]).arg(self.file("vip.sock")).output();
        let output = output.unwrap();
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat()
    }
}

/// A path to the address: next hop, length of the AS path, true if the router uses it, community.
type Found = (String, u64, bool, String);

fn paths(router: &Router) -> Vec<Found> {
    let shown = router.show(&format!("bgp ipv4 unicast {VIP}/32"));
    let mut paths: Vec<Found> = shown["paths"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|path| {
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let is_used = path["multipath"] == true || path["bestpath"]["overall"] == true;
            let length = path["aspath"]["length"].as_u64().unwrap_or_default();
            (text(&path["nexthops"][0]["ip"]), length, is_used, text(&path["community"]["string"]))
        })
        .collect();
    paths.sort();
    paths
}

/// Waits until the router has these paths: next hop, length of the AS path, true if it is used.
fn await_paths(router: &Router, expected: &[(&str, u64, bool)]) {
    let mut found = Vec::new();
    await_some(&format!("paths {expected:?}"), || {
        found = paths(router);
        let plain = found.iter().map(|(hop, length, is_used, _)| (hop.as_str(), *length, *is_used));
        plain.eq(expected.iter().copied()).then_some(())
    });
}

/// Asks the server at the address from the router's host.
fn answer(router: &Host) -> Option<String> {
    router.run(|| {
        let to = (VIP.parse::<Ipv4Addr>().unwrap(), PORT).into();
        let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(1)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    })
}

#[test]
fn three_hosts_announce_an_address_degrade_it_when_checks_fail_and_leave_it_in_order_or_dead() {
    if !require_frr() {
        return;
    }
    let host = Host::new();
    for line in
        ["link set lo up", "link add br0 type bridge", "link set br0 up", "addr add 192.0.2.1/24 dev br0"]
    {
        host.ip(line);
    }
    let neighbours = HOSTS.map(|node| {
        format!("neighbor {node} remote-as 64512\nneighbor {node} passive\nneighbor {node} bfd\n")
    });
    let lines = format!("{}address-family ipv4 unicast\nmaximum-paths 8", neighbours.concat());
    let router = Router::with_bfd(&host, 64500, &lines, "");
    let mut nodes: Vec<Node> = HOSTS.iter().zip(1..).map(|(node, n)| Node::start(&host, n, node)).collect();
    let all = |length| HOSTS.map(|node| (node, length, true));

    // All serve, and what the router's kernel has leads to one of them.
    await_paths(&router, &all(GOOD));
    let served = await_some("answer", || answer(&host));
    assert!(HOSTS.contains(&served.as_str()), "{served}");
    await_some("readiness", || (nodes[0].probe("/readyz") == "ok\n").then_some(()));
    for line in [
        "windlass_bgp_session_state{peer=\"IPv4 gateway\",address=\"192.0.2.1\"} 6",
        "windlass_bfd_up{peer=\"IPv4 gateway\",address=\"192.0.2.1\"} 1",
        "windlass_vip_route{address=\"203.0.113.100\",interface=\"eth0\"} 2",
    ] {
        await_some(line, || nodes[0].probe("/metrics").contains(line).then_some(()));
    }

    // A check fails on one host, then on all.
    nodes[0].set_fit(false);
    await_paths(&router, &[(HOSTS[0], DEGRADED, false), (HOSTS[1], GOOD, true), (HOSTS[2], GOOD, true)]);
    nodes[1].set_fit(false);
    nodes[2].set_fit(false);
    await_paths(&router, &all(DEGRADED));
    assert!(await_some("answer", || answer(&host)).starts_with("192.0.2.1"));

    // Other settings, the same session.
    nodes[0].configure("64512:200");
    await_some("the new community", || {
        paths(&router).iter().any(|(.., community)| community.contains("64512:200")).then_some(())
    });
    assert_eq!(router.neighbour(HOSTS[0])["connectionsEstablished"], 1);

    // One ends in order: it withdraws the route, then closes the session. One is killed. One falls silent, which BFD finds long before
    // the hold time has passed.
    let received = || {
        let counts = router.neighbour(HOSTS[0])["messageStats"].clone();
        ["updatesRecv", "notificationsRecv"].map(|kind| counts[kind].as_u64().unwrap())
    };
    let before = received();
    let (status, log) = nodes[0].vip.take().unwrap().terminate();
    assert!(status.success(), "{log}");
    await_paths(&router, &[(HOSTS[1], DEGRADED, true), (HOSTS[2], DEGRADED, true)]);
    let [updates, notifications] = received();
    assert_eq!(updates, before[0] + 1, "the withdrawal");
    assert!(notifications > before[1], "Cease, and not BFD's end alone");
    drop(nodes[1].vip.take());
    await_paths(&router, &[(HOSTS[2], DEGRADED, true)]);
    assert_eq!(nodes[2].address, answer(&host).expect("an answer"));
    host.ip("link set port3 nomaster");
    await_paths(&router, &[]);
}
