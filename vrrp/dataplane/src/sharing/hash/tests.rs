use std::collections::BTreeMap;
use std::net::{Ipv6Addr, UdpSocket};
use std::process::Command;

use windlass_kernel::netfilter::attributes::Attributes;
use windlass_kernel::netfilter::chain::{Chain, Hook, OUTPUT};
use windlass_kernel::netfilter::contents::{SetChange, TableContents, of_set};
use windlass_kernel::netfilter::element::{self, Part};
use windlass_kernel::netfilter::expression::{
    Base,
    Expression::{self, AddTo, From, Hash, Payload},
    Hash as Hashed,
};
use windlass_kernel::netfilter::message::{Operation, TableFamily};
use windlass_kernel::netfilter::table::OwnedTable;
use windlass_vrrp::Family;

use super::*;
use crate::lab::in_namespace;

/// Loads the lot by this many words of the register, behind them.
fn hashed(words: u32) -> Expression {
    let below = u32::try_from(LOTS).unwrap();
    Hash(Hashed { from: 0, length: words * 4, into: 5, below, seed: SEED })
}

/// A table with a set of the ports with lots that the kernel computed of packets, by client and port, and one by client.
#[derive(Clone, Default)]
struct Lots;

impl TableContents for Lots {
    const FAMILY: TableFamily = TableFamily::Inet;

    fn sets(&self) -> Vec<(&'static str, Attributes)> {
        let evaluated = 0x20;
        let key = [Part::address(Family::V6), Part::PORT, Part::MARK];
        ["connections", "clients"].map(|set| (set, element::set(Attributes::new(), &key, evaluated))).into()
    }

    fn chains(&self) -> Vec<Chain> {
        let address = Payload { base: Base::Network, offset: 8, length: 16 };
        let port = From(4, const { &Payload { base: Base::Transport, offset: 0, length: 2 } });
        let rule = |hash, set| vec![address, port, hash, AddTo(set)];
        let rules = vec![rule(hashed(5), "connections"), rule(hashed(4), "clients")];
        let hook = Some(Hook { kind: "filter", number: OUTPUT, priority: 0 });
        vec![Chain { name: "output", hook, rules }]
    }

    fn changes(&self, _next: &Self) -> Vec<SetChange> {
        Vec::new()
    }
}

#[test]
fn the_lot_of_a_client_is_the_one_that_the_kernel_computes() {
    in_namespace(|| {
        Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        let mut table = OwnedTable::open("hash").unwrap();
        table.apply(Lots).unwrap();
        let ports = 2000..2300;
        for port in ports.clone() {
            let socket = UdpSocket::bind((Ipv6Addr::LOCALHOST, port)).unwrap();
            socket.send_to(b"?", (Ipv6Addr::LOCALHOST, 9)).unwrap();
        }
        for (set, by) in [("connections", SharedBy::Connection), ("clients", SharedBy::Client)] {
            let listed = table.ask(Operation::GetElements, &of_set("hash", set)).unwrap().unwrap();
            let found = listed.iter().flat_map(|message| element::read(message));
            let computed = found.map(|found| {
                let port = u16::from_be_bytes([found.key[16], found.key[17]]);
                (port, u32::from_ne_bytes(found.key[20..24].try_into().unwrap()))
            });
            // The kernel's own packets are listed as well.
            let computed: BTreeMap<u16, u32> = computed.filter(|(port, _)| ports.contains(port)).collect();
            let predicted = |port| u32::from(lot(Ipv6Addr::LOCALHOST.into(), port, by));
            assert_eq!(computed, ports.clone().map(|port| (port, predicted(port))).collect(), "{set}");
        }
    });
}

#[test]
fn connections_are_spread_evenly_over_the_lots() {
    for client in ["198.51.100.7", "2001:db8::7"] {
        let client: IpAddr = client.parse().unwrap();
        let mut counts = [0; LOTS];
        (1024..=u16::MAX).for_each(|port| counts[usize::from(lot(client, port, SharedBy::Connection))] += 1);
        let mean = 64512 / LOTS;
        assert!(counts.iter().all(|count| (mean * 3 / 4..mean * 5 / 4).contains(count)), "{counts:?}");
    }
}
