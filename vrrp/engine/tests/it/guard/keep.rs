//! That the table is there, is right, and goes.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::process::Command;
use std::time::Instant;

use windlass_dataplane::guard::{Checked, Guard, GuardError, Guarded};

use crate::lab::{Host, VIP, await_some, require_root, take_turn};

use super::scene::{Scene, TABLE, VIP6, both_held, connect, connect_while, listen, pings, run, try_run};

/// Without how long what is in it counts.
fn table(host: &Host) -> Option<String> {
    let shown = try_run(host, &format!("nft list table inet {TABLE}"), "")?;
    Some(shown.lines().filter(|line| !line.contains(" expires ")).collect::<Vec<_>>().join("\n"))
}

/// `nft` names input, forward and output priorities and our kinds by itself: its view of what we wrote is the text in
/// the guard's documentation.
#[test]
fn nft_shows_the_table_as_it_is_documented() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let mut guard = scene.install();
    // With the rules that are there only for such VIPs, and without the VIP.
    guard.update(&Guarded { replicated: [VIP.into()].into(), ..Guarded::default() }).unwrap();
    for set in ["replicated4", "known4"] {
        run(scene.node(), &format!("nft flush set inet {TABLE} {set}"), "");
    }
    let written = include_str!("../../../../dataplane/src/guard.rs");
    let documented = written.split("```").nth(1).unwrap().replace("//!", "");
    let normal = |text: &str| {
        let words = text.lines().map(|line| line.split('#').next().unwrap()).collect::<Vec<_>>().join(" ");
        let words = words
            .replace("packets 0 bytes 0 ", "")
            .replace(';', " ")
            .replace("with icmpx port-unreachable", "");
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let shown = table(scene.node()).unwrap();
    assert_eq!(normal(documented.trim_start().trim_start_matches("text")), normal(&shown));
}

#[test]
fn the_kernel_tells_less_of_connections_only_while_there_are_some_to_replicate() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let mut guard = scene.guard();
    let plain = table(scene.node()).unwrap();
    assert!(!plain.contains("ct event set") && !plain.contains("ct label set"), "{plain}");
    for vip in [IpAddr::from(VIP), VIP6.into()] {
        guard.update(&Guarded { replicated: [vip].into(), ..both_held() }).unwrap();
        let masked = table(scene.node()).unwrap();
        assert!(masked.contains("ct event set") && masked.contains("ct label set"), "{masked}");
        assert_eq!(guard.full_check().unwrap(), Checked::Intact);
    }
    guard.update(&both_held()).unwrap();
    assert_eq!(table(scene.node()).unwrap(), plain);
    assert_eq!(guard.full_check().unwrap(), Checked::Intact);
}

#[test]
fn after_a_crash_the_old_table_guards_on_until_a_new_one_replaces_it() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    drop(scene.guard());
    assert!(pings(scene.client(), VIP, 20), "the table stays");
    let guard = scene.install();
    let fresh = table(scene.node()).unwrap();
    assert!(!fresh.contains(&VIP.to_string()), "{fresh}");
    guard.remove().unwrap();
    assert_eq!(table(scene.node()), None);
}

/// No packet finds the table missing or empty while it is made anew.
#[test]
fn a_table_is_replaced_in_one_step() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    scene.node().ip("addr add 192.0.2.50/32 dev eth0");
    let _server = listen(scene.node(), 22);
    drop(scene.guard());
    let results = connect_while(scene.client(), 500, vec![(VIP, 22).into()], || {
        drop(scene.node().run(|| Guard::install(TABLE, &both_held())).unwrap());
    });
    let refused = |result: &io::Result<()>| {
        result.as_ref().err().map(io::Error::kind) == Some(ErrorKind::ConnectionRefused)
    };
    assert_eq!(results.iter().filter(|one| !refused(one)).count(), 0, "connections that were not refused");
}

/// The node's own packets for a VIP that it holds are not sent; those of a node whose engine was killed must be, since the VIP
/// is on another node by then.
#[test]
fn after_a_crash_the_node_itself_finds_the_vip_elsewhere() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let (elsewhere, node) = (scene.client(), scene.node());
    elsewhere.ip("addr add 192.0.2.50/32 dev eth0");
    let _server = listen(elsewhere, 80);
    let mut guard = scene.guard();
    for _ in 0..2 {
        connect(node, VIP, 80).unwrap_err();
        assert_eq!(guard.full_check().unwrap(), Checked::Intact);
    }
    drop(guard);
    await_some("connection to the VIP", || connect(node, VIP, 80).ok());
    connect(&scene.pod, VIP, 80).expect_err("what is forwarded is guarded all the same");
}

#[test]
fn whatever_is_done_to_the_table_is_noticed_and_undone() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let node = scene.node();
    let mut guard = scene.guard();
    assert_eq!(guard.full_check().unwrap(), Checked::Intact);
    let intact = table(node).unwrap();
    let damages = [
        ("flush ruleset", "it was gone or being changed"),
        ("delete table inet windlass", "it was gone or being changed"),
        ("flush table inet windlass", "it was gone or being changed"),
        ("flush chain inet windlass input", "it was gone or being changed"),
        ("table inet windlass { flags dormant; }", "it was gone or being changed"),
        ("insert rule inet windlass input accept", "it was gone or being changed"),
        ("flush set inet windlass vips6", "the elements of a set were changed"),
        ("add element inet windlass vips4 { 192.0.2.51 }", "the elements of a set were changed"),
        (
            "delete table inet windlass\ntable inet windlass { set vips4 { type ipv4_addr; }; }",
            "it was gone or being changed",
        ),
        (
            "flush chain inet windlass after-nat\nadd rule inet windlass after-nat accept\nadd rule inet windlass after-nat accept",
            "its rules were changed",
        ),
    ];
    for (damage, found) in damages {
        run(node, "nft -f -", damage);
        assert_ne!(table(node).as_ref(), Some(&intact), "{damage}");
        assert_eq!(guard.full_check().unwrap(), Checked::Restored { found }, "{damage}");
        assert_eq!(table(node).as_ref(), Some(&intact), "{damage}");
        assert_eq!(guard.full_check().unwrap(), Checked::Intact, "{damage}");
        // A quick check does not see what is in the sets.
        if found != "the elements of a set were changed" {
            run(node, "nft -f -", damage);
            assert_eq!(guard.quick_check().unwrap(), Checked::Restored { found }, "{damage}");
            assert_eq!(table(node).as_ref(), Some(&intact), "{damage}");
            assert_eq!(guard.quick_check().unwrap(), Checked::Intact, "{damage}");
        }
    }
    let other = node.run(|| Guard::install(TABLE, &Guarded::default())).unwrap();
    assert_eq!(guard.full_check().unwrap(), Checked::Restored { found: "another process had made it anew" });
    other.remove().unwrap();
    assert_eq!(guard.full_check().unwrap(), Checked::Intact, "the other removed only what it had made");
}

#[test]
fn changes_to_other_tables_are_none_of_its_business() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let mut guard = scene.guard();
    assert_eq!(guard.full_check().unwrap(), Checked::Intact);
    let before = table(scene.node());
    run(
        scene.node(),
        "nft -f -",
        "table inet other { set vips4 { type ipv4_addr; elements = { 192.0.2.9 }; }; }",
    );
    let mut second = scene.node().run(|| Guard::install("windlass-2", &Guarded::default())).unwrap();
    second.update(&both_held()).unwrap();
    assert_eq!(guard.full_check().unwrap(), Checked::Intact);
    assert_eq!(table(scene.node()), before);
    let other = run(scene.node(), "nft list table inet other", "");
    guard.remove().unwrap();
    assert_eq!(second.full_check().unwrap(), Checked::Intact);
    second.remove().unwrap();
    assert_eq!(run(scene.node(), "nft list ruleset", ""), other);
}

#[test]
fn an_update_of_a_table_that_is_gone_makes_it_anew() {
    if !require_root() {
        return;
    }
    let scene = Scene::new();
    let mut guard = scene.install();
    run(scene.node(), "nft flush ruleset", "");
    guard.update(&both_held()).unwrap();
    assert_eq!(guard.full_check().unwrap(), Checked::Intact);
    assert!(pings(scene.client(), VIP, 20));
    run(scene.node(), "nft flush ruleset", "");
    guard.remove().unwrap();
}

/// The times are printed, not judged.
#[test]
fn ten_thousand_vips_of_each_family_are_guarded() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let host = Host::new();
    let all = |first: u32| -> BTreeSet<IpAddr> {
        let v4 = (first..first + 10_000).map(|n| IpAddr::V4((0xc612_0000 + n).into()));
        let v6 = (first..first + 10_000).map(|n| IpAddr::V6((0x2001_0db8 << 96 | u128::from(n)).into()));
        v4.chain(v6).collect()
    };
    let timed = |what: &str, step: &mut dyn FnMut() -> Checked| {
        let start = Instant::now();
        let result = step();
        println!("{what}: {:?}", start.elapsed());
        result
    };
    let mut guard = host.run(|| Guard::install(TABLE, &Guarded::default())).unwrap();
    let mut updated = |what, wanted: &Guarded| {
        timed(what, &mut || {
            guard.update(wanted).unwrap();
            Checked::Intact
        });
        let first = timed("  check after it", &mut || guard.full_check().unwrap());
        let second = timed("  check again", &mut || guard.full_check().unwrap());
        assert_eq!([first, second], [Checked::Intact; 2]);
    };
    let full = Guarded { vips: all(0), held: all(0), ..Guarded::default() };
    updated("add 2 x 20,000 addresses", &full);
    let more: BTreeSet<_> = all(0).into_iter().chain(["192.0.2.1".parse().unwrap()]).collect();
    updated("add one more", &Guarded { vips: more, ..full.clone() });
    updated("no longer Active for any", &Guarded { held: [].into(), ..full.clone() });
    updated("exchange all", &Guarded { vips: all(10_000), held: all(10_000), ..Guarded::default() });
    run(&host, "nft flush ruleset", "");
    guard.update(&full).unwrap();
    assert_eq!(guard.full_check().unwrap(), Checked::Intact);
}

/// The kernel makes room for more elements in the background, and lists not all of them meanwhile.
#[test]
fn a_set_that_grows_is_not_taken_for_damaged() {
    if !require_root() {
        return;
    }
    let _turn = take_turn();
    let host = Host::new();
    let mut guard = host.run(|| Guard::install(TABLE, &Guarded::default())).unwrap();
    for round in 0..10_u32 {
        guard.update(&Guarded::default()).unwrap();
        for size in [5_000, 30_000] {
            let vips = (0..size).map(|n| IpAddr::V4((0xc612_0000 + (round << 8) + n).into())).collect();
            guard.update(&Guarded { vips, ..Guarded::default() }).unwrap();
            assert_eq!(guard.full_check().unwrap(), Checked::Intact, "round {round}, {size} addresses");
        }
    }
}

const MARK: &str = "WINDLASS_TEST_DENIED";

/// Not a test of its own: run without CAP_NET_ADMIN by the test below.
#[test]
#[ignore = "the body of another test's process"]
fn install_and_tell() {
    if std::env::var_os(MARK).is_some() {
        match Guard::install(TABLE, &Guarded::default()) {
            Ok(_) => println!("{MARK} installed"),
            Err(error) => println!("{MARK} {}: {error}", matches!(error, GuardError::Denied { .. })),
        }
    }
}

#[test]
fn without_cap_net_admin_the_guard_says_what_is_missing() {
    if !require_root() {
        return;
    }
    let output = Host::new().run(|| {
        Command::new("setpriv")
            .args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "guard::keep::install_and_tell", "--ignored", "--nocapture"])
            .env(MARK, "1")
            .output()
            .expect("run `setpriv`")
    });
    let said = String::from_utf8_lossy(&output.stdout);
    let told = said.lines().find_map(|line| line.split_once(&format!("{MARK} "))).expect("an answer").1;
    assert!(told.starts_with("true: cannot write the nftables table inet windlass"), "{told}");
    assert!(told.contains("CAP_NET_ADMIN"), "{told}");
}
