use std::thread;

use nix::unistd::{Uid, geteuid, setfsuid};

use super::*;

/// Of no one else on this machine.
const NOBODY: u32 = 65534;

fn unique(what: &str) -> String {
    format!("windlass-test-{what}-{}", std::process::id())
}

/// A socket of this name, as a process of the user has it.
fn socket_of(uid: u32, name: &str) -> UnixDatagram {
    let name = name.to_owned();
    let bound = thread::spawn(move || {
        // Of this thread alone. The kernel takes it for the owner of what the thread makes.
        setfsuid(Uid::from_raw(uid));
        bind(&name)
    });
    bound.join().unwrap().unwrap()
}

/// Whether sockets of other users can be made.
fn require_root() -> bool {
    let is_root = geteuid().is_root();
    assert!(is_root || std::env::var("CI").is_err(), "this test acts as another user: run as root");
    is_root
}

#[test]
fn a_name_is_claimed_once_until_it_is_let_go_of() {
    let name = unique("once");
    assert!(!HostClaim::is_made(&name));
    let first = HostClaim::make(&name).unwrap();
    assert!(HostClaim::is_made(&name));
    assert_eq!(HostClaim::make(&name).unwrap_err(), ClaimedByAnother);
    assert_eq!(first.intruder(), None);
    drop(first);
    assert!(!HostClaim::is_made(&name));
    HostClaim::make(&name).unwrap();
}

// shows: threats T-23
#[test]
fn claims_of_another_user_are_passed_over_and_told_and_those_of_root_count_beside_them() {
    if !require_root() {
        return;
    }
    let name = unique("intruder");
    let intruder = socket_of(NOBODY, &name);
    assert!(!HostClaim::is_made(&name));
    let claim = HostClaim::make(&name).unwrap();
    assert_eq!(claim.intruder(), Some(Intruder { uid: Some(NOBODY) }));
    assert!(claim.intruder().unwrap().to_string().contains("user 65534"));
    assert!(HostClaim::is_made(&name));
    // Also once the first name is free.
    assert_eq!(HostClaim::make(&name).unwrap_err(), ClaimedByAnother);
    drop(intruder);
    assert_eq!(HostClaim::make(&name).unwrap_err(), ClaimedByAnother);
    drop(claim);
    let claim = HostClaim::make(&name).unwrap();
    assert_eq!(claim.intruder(), None);
}

#[test]
fn who_holds_all_names_without_right_or_refuses_to_be_asked_keeps_nobody_from_work() {
    if !require_root() {
        return;
    }
    let name = unique("all");
    let mut held: Vec<UnixDatagram> =
        (0..NAMES).map(|ordinal| socket_of(NOBODY, &name_of(&name, ordinal))).collect();
    assert_eq!(HostClaim::make(&name).unwrap().intruder(), Some(Intruder { uid: Some(NOBODY) }));
    let stubborn = held.remove(0);
    let address = stubborn.local_addr().unwrap();
    stubborn.connect_addr(&address).unwrap();
    assert_eq!(owner(&name), Owner::Intruder(Intruder { uid: None }));
    assert!(!HostClaim::is_made(&name));
    HostClaim::make(&name).unwrap();
}

/// Versions before this one bind the first name, and ask nobody who has it.
#[test]
fn an_older_version_of_root_and_this_one_exclude_each_other() {
    if !require_root() {
        return;
    }
    let name = unique("older");
    let older = socket_of(0, &name);
    assert_eq!(HostClaim::make(&name).unwrap_err(), ClaimedByAnother);
    drop(older);
    let _claim = HostClaim::make(&name).unwrap();
    assert_eq!(bind(&name).unwrap_err().kind(), ErrorKind::AddrInUse);
}
