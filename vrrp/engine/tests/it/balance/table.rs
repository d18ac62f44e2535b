//! That the table is there, is right, and goes.

use std::process::Command;

use windlass_engine::{BalanceError, BalanceObstacle, Balancer, Balancing, Checked, ClientSource};

use crate::guard::scene::{run, try_run};
use crate::lab::{Host, await_some, require_root};

use super::scene::{Scene, TABLE, VIPS, balancing, set_forwarding};

/// Without the elements that go by themselves.
fn table(host: &Host) -> Option<String> {
    let shown = try_run(host, &format!("nft list table inet {TABLE}"), "")?;
    Some(shown.lines().filter(|line| !line.contains(" expires ")).collect::<Vec<_>>().join("\n"))
}

fn open(host: &Host) -> Balancer {
    host.run(|| Balancer::open(TABLE)).unwrap()
}

#[test]
fn nft_shows_the_table_as_it_is_documented() {
    if !require_root() {
        return;
    }
    let host = Host::new();
    let mut balancer = open(&host);
    assert_eq!(table(&host), None, "nothing before it is told what is wanted");
    balancer.apply(&Balancing::default()).unwrap();
    let written = include_str!("../../../../dataplane/src/balance.rs");
    let documented = written.split("```").nth(1).unwrap().replace("//!", "");
    let normal = |text: &str| {
        let words = text.lines().map(|line| line.split('#').next().unwrap()).collect::<Vec<_>>().join(" ");
        let words = words.replace("packets 0 bytes 0 ", "").replace(';', " ");
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let shown = table(&host).unwrap();
    assert_eq!(normal(documented.trim_start().trim_start_matches("text")), normal(&shown));
}

#[test]
fn whatever_is_done_to_the_table_is_noticed_and_undone() {
    if !require_root() {
        return;
    }
    let host = Host::new();
    let mut balancer = open(&host);
    assert_eq!(balancer.check().unwrap(), Checked::Intact, "nothing is wanted yet");
    balancer.apply(&balancing(0, &[0, 1], ClientSource::Masquerade)).unwrap();
    balancer.local(&VIPS.into()).unwrap();
    assert_eq!(balancer.check().unwrap(), Checked::Intact);
    let intact = table(&host).unwrap();
    let damages = [
        ("flush ruleset", "it was gone or being changed"),
        ("delete table inet windlass-vip-nat", "it was gone or being changed"),
        ("flush chain inet windlass-vip-nat backends", "it was gone or being changed"),
        ("table inet windlass-vip-nat { flags dormant; }", "it was gone or being changed"),
        ("insert rule inet windlass-vip-nat prerouting accept", "it was gone or being changed"),
        ("flush map inet windlass-vip-nat lots6", "the elements of a set were changed"),
        ("add element inet windlass-vip-nat own4 { 192.0.2.51 }", "the elements of a set were changed"),
        (
            "flush chain inet windlass-vip-nat prerouting\nadd rule inet windlass-vip-nat prerouting accept",
            "its rules were changed",
        ),
    ];
    for (damage, found) in damages {
        run(&host, "nft -f -", damage);
        assert_ne!(table(&host).as_ref(), Some(&intact), "{damage}");
        assert_eq!(balancer.check().unwrap(), Checked::Restored { found }, "{damage}");
        assert_eq!(table(&host).as_ref(), Some(&intact), "{damage}");
        assert_eq!(balancer.check().unwrap(), Checked::Intact, "{damage}");
    }
    // Noticed by whatever is told it first.
    run(&host, "nft flush ruleset", "");
    balancer.local(&VIPS.into()).unwrap();
    assert_eq!(table(&host).as_ref(), Some(&intact));
    run(&host, "nft flush ruleset", "");
    let other = balancing(0, &[1], ClientSource::Masquerade);
    balancer.apply(&other).unwrap();
    assert_eq!(balancer.check().unwrap(), Checked::Intact);
    // Another process's: one of the two is too many, and neither removes what it did not make.
    let mut second = open(&host);
    second.apply(&other).unwrap();
    assert_eq!(balancer.check().unwrap(), Checked::Restored { found: "another process had made it anew" });
    second.close().unwrap();
    assert_eq!(balancer.check().unwrap(), Checked::Intact);
    balancer.close().unwrap();
    assert_eq!(run(&host, "nft list ruleset", ""), "");
}

#[test]
fn what_a_killed_process_left_serves_on_until_the_next_one_knows_better() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let _node = scene.active(0);
    drop(scene.balance(0, &[1]));
    assert_eq!(scene.connect(VIPS[0]).ask(), [2, 1]);
    let mut next = open(scene.node(0));
    next.check().unwrap();
    next.local(&VIPS.into()).unwrap();
    assert_eq!(scene.connect(VIPS[0]).ask(), [2, 1], "while nothing is known");
    next.apply(&balancing(0, &[2], ClientSource::Masquerade)).unwrap();
    assert_eq!(scene.connect(VIPS[0]).ask(), [3, 1]);
}

#[test]
fn a_table_that_somebody_deletes_is_back() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let _node = scene.active(0);
    let kept = scene.balance(0, &[0, 1]);
    kept.set_active(true);
    let mut connections = scene.connections(5);
    run(scene.node(0), "nft delete table inet windlass-vip-nat", "");
    await_some("the table", || table(scene.node(0)));
    for connection in &mut connections {
        connection.ask();
    }
    for vip in VIPS {
        scene.connect(vip).ask();
        super::scene::Connection::open(scene.node(0), vip).unwrap().ask();
    }
}

#[test]
fn a_node_that_does_not_forward_says_so_where_there_are_backends_on_others() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    set_forwarding(scene.node(0), false);
    let obstacles = |to: &'static [usize]| {
        let mut balancer = open(scene.node(0));
        balancer.apply(&balancing(0, to, ClientSource::Masquerade)).unwrap();
        scene.node(0).run(move || balancer.obstacles())
    };
    assert_eq!(obstacles(&[0]), []);
    let both = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"]
        .map(|setting| BalanceObstacle::NotForwarding { setting });
    assert_eq!(obstacles(&[0, 1]), both);
    assert!(both[0].to_string().contains("sysctl -w net.ipv4.ip_forward=1"), "{}", both[0]);
    set_forwarding(scene.node(0), true);
    assert_eq!(obstacles(&[0, 1]), []);
}

const MARK: &str = "WINDLASS_TEST_DENIED";

/// Not a test of its own: run without CAP_NET_ADMIN by the test below.
#[test]
#[ignore = "the body of another test's process"]
fn apply_and_tell() {
    if std::env::var_os(MARK).is_some() {
        let applied = Balancer::open(TABLE).and_then(|mut balancer| balancer.apply(&Balancing::default()));
        match applied {
            Ok(()) => println!("{MARK} applied"),
            Err(error) => println!("{MARK} {}: {error}", matches!(error, BalanceError::Denied { .. })),
        }
    }
}

#[test]
fn without_cap_net_admin_the_balancer_says_what_is_missing() {
    if !require_root() {
        return;
    }
    let output = Host::new().run(|| {
        Command::new("setpriv")
            .args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "balance::table::apply_and_tell", "--ignored", "--nocapture"])
            .env(MARK, "1")
            .output()
            .expect("run `setpriv`")
    });
    let said = String::from_utf8_lossy(&output.stdout);
    let told = said.lines().find_map(|line| line.split_once(&format!("{MARK} "))).expect("an answer").1;
    assert!(told.starts_with("true: cannot write the nftables table inet windlass-vip-nat"), "{told}");
    assert!(told.contains("CAP_NET_ADMIN"), "{told}");
}
