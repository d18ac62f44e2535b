use std::net::IpAddr;
use std::process::Command;

use windlass_kernel::port::Protocol;

use super::*;
use crate::lab::in_namespace;
use crate::sharing::{Share, Shares, Sharing, SharingLink};

const TABLE: &str = "windlass-sharing";

/// Without comments, semicolons, counts and white space.
fn plain(text: &str) -> String {
    let uncommented = text.lines().map(|line| line.split('#').next().unwrap()).collect::<Vec<_>>().join(" ");
    let words = uncommented.replace("packets 0 bytes 0 ", "").replace(';', " ");
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shown(command: &str) -> String {
    let output = Command::new("nft").args(command.split(' ')).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_table_in_the_kernel_is_the_documented_one() {
    in_namespace(|| {
        let links = [("lo".to_owned(), SharingLink { index: 1, ..SharingLink::default() })].into();
        let sharing = Sharing::install(TABLE, &Shares::default(), &links).unwrap();
        let written = include_str!("../../sharing.rs").split("```").nth(1).unwrap().replace("//!", "");
        let shown = shown("list table netdev windlass-sharing");
        assert_eq!(plain(written.strip_prefix("text").unwrap()), plain(&shown));
        drop(sharing);
    });
}

#[test]
fn elements_are_shown_as_what_they_are() {
    in_namespace(|| {
        let (vip, server): (IpAddr, IpAddr) = ("192.0.2.50".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let share = Share {
            interface: "lo".to_owned(),
            ports: [80].into(),
            by: SharedBy::Connection,
            servers: vec![server],
            lots: [0; LOTS],
            former: Vec::new(),
        };
        let shares = Shares { services: [((vip, Protocol::Tcp), share)].into(), ..Shares::default() };
        let peers = [(server, [2, 0, 0, 0, 0, 1])].into();
        let links = [("lo".to_owned(), SharingLink { index: 1, peers, ..SharingLink::default() })].into();
        let _sharing = Sharing::install(TABLE, &shares, &links).unwrap();
        let shown = shown("list table netdev windlass-sharing");
        for element in [
            "elements = { 02:00:00:00:00:01 }",
            "elements = { \"lo\" . 192.0.2.50 . tcp . 80 }",
            "192.0.2.50 . tcp . 0x00000077 : 192.0.2.2",
        ] {
            assert!(shown.contains(element), "{element}: {shown}");
        }
    });
}
