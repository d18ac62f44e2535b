use std::io;
use std::net::IpAddr;
use std::process::Command;
use std::sync::Arc;

use windlass_kernel::netfilter::failure::Failure;
use windlass_kernel::port::Protocol;

use super::*;
use crate::lab::in_namespace;
use crate::sharing::{Share, Shares, Sharing, SharingError, SharingLink};

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
        let shares =
            Shares { services: [((vip, Protocol::Tcp), Arc::new(share))].into(), ..Shares::default() };
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

/// Error of a step of the batch that makes the table.
fn error(what: &str, number: i32) -> SharingError {
    Failure::new(what, io::Error::from_raw_os_error(number)).of_new_table().into()
}

#[test]
fn a_kernel_that_lacks_a_part_is_told_by_the_name_of_the_part_and_its_module() {
    let table = [
        (FWD, libc::ENOENT, "nft_fwd_netdev"),
        (HASH, libc::ENOENT, "nft_hash"),
        (NETDEV, libc::EOPNOTSUPP, "CONFIG_NETFILTER_INGRESS"),
    ];
    for (part, number, module) in table {
        let error = error(part, number);
        assert!(matches!(error, SharingError::Unsupported { .. }), "{error:?}");
        assert!(error.to_string().contains(module), "{error}");
    }
    let family = error("create the nftables table netdev windlass-sharing", libc::EOPNOTSUPP);
    assert!(matches!(family, SharingError::Unsupported { .. }), "{family:?}");
}

#[test]
fn an_interface_that_is_gone_and_a_missing_capability_are_no_missing_parts() {
    let mut batch = Batch::default();
    DeviceChain { table: "windlass-sharing", device: "eth0" }.renew(&mut batch, PRIORITY, &[]);
    for step in (1..=batch.last()).filter_map(|at| batch.what(at)) {
        let gone = error(step, libc::ENOENT);
        assert!(matches!(gone, SharingError::Kernel { .. }), "{gone:?}");
    }
    let denied = error(FWD, libc::EPERM);
    assert!(matches!(denied, SharingError::Denied { .. }), "{denied:?}");
}
