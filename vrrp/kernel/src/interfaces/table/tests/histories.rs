//! Random histories of a kernel that is modelled naively, told whole or in part.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Something that happens in the kernel.
#[derive(Clone, Debug)]
enum Operation {
    /// The interface comes, or is changed: name, up, running.
    SetLink(u32, &'static str, bool, bool),
    /// It goes, and its addresses with it.
    DeleteLink(u32),
    /// The address comes, or is changed.
    SetAddress(Address),
    DeleteAddress(Address),
}

/// The kernel: what there is, the addresses in the order in which they came.
#[derive(Clone, Default)]
struct Kernel {
    links: Vec<Link>,
    addresses: Vec<Address>,
}

impl Kernel {
    /// Does it, and returns what a monitor hears.
    fn does(&mut self, operation: Operation) -> Vec<Change> {
        match operation {
            Operation::SetLink(index, name, up, running) => {
                let link = Link { up, running: up && running, ..link(index, name) };
                self.links.retain(|other| other.index != index);
                self.links.push(link.clone());
                vec![Change::Link(link)]
            }
            Operation::DeleteLink(index) => {
                let (going, staying) = self.addresses.drain(..).partition(|address| address.index == index);
                self.addresses = staying;
                self.links.retain(|other| other.index != index);
                let going: Vec<Address> = going;
                going.into_iter().map(Change::AddressGone).chain([Change::LinkGone(index)]).collect()
            }
            Operation::SetAddress(address) => {
                if self.links.iter().all(|link| link.index != address.index) {
                    return Vec::new();
                }
                match self.addresses.iter_mut().find(|other| is_same(other, &address)) {
                    Some(other)
                        if other.flags.contains(AddressFlags::Secondary)
                            == address.flags.contains(AddressFlags::Secondary) =>
                    {
                        *other = address.clone();
                    }
                    Some(_) | None => {
                        self.addresses.retain(|other| !is_same(other, &address));
                        self.addresses.push(address.clone());
                    }
                }
                vec![Change::Address(address)]
            }
            Operation::DeleteAddress(address) => {
                let before = self.addresses.len();
                self.addresses.retain(|other| !is_same(other, &address));
                let removed = self.addresses.len() < before;
                removed.then_some(Change::AddressGone(address)).into_iter().collect()
            }
        }
    }

    fn dump(&self) -> Interfaces {
        let mut links = self.links.clone();
        links.sort_by_key(|link| link.index);
        let mut addresses = self.addresses.clone();
        // Stable: those of one kind stay as they came.
        addresses.sort_by_key(|address| address.flags.contains(AddressFlags::Secondary));
        links.into_iter().map(Change::Link).chain(addresses.into_iter().map(Change::Address)).collect()
    }
}

fn is_same(one: &Address, other: &Address) -> bool {
    let prefix = one.ip.is_ipv6() || one.prefix == other.prefix;
    (one.index, one.ip) == (other.index, other.ip) && prefix
}

fn operation() -> impl Strategy<Value = Operation> {
    let index = || 1u32..4;
    let v4 = select(vec!["192.0.2.1/24", "192.0.2.2/24", "192.0.2.2/32", "198.51.100.1/24"]);
    let v4_flags = select(vec![AddressFlags::Permanent, AddressFlags::Secondary]);
    let v6 = select(vec!["fe80::1/64", "fe80::2/64", "2001:db8::1/64"]);
    let v6_flags = select(vec![AddressFlags::Permanent, AddressFlags::Tentative, AddressFlags::Dadfailed]);
    // An address of the engine's stays that: the kernel's order does not tell.
    let tagged = |text: &str| if text.ends_with("/32") { OURS } else { 0 };
    let any_address = prop_oneof![
        (index(), v4, v4_flags).prop_map(move |(i, text, flags)| address(i, text, flags, tagged(text))),
        (index(), v6, v6_flags).prop_map(|(i, text, flags)| address(i, text, flags, 0)),
    ];
    let any_address = any_address.boxed();
    prop_oneof![
        3 => (index(), select(vec!["eth0", "eth1", "lan0"]), any::<bool>(), any::<bool>())
            .prop_map(|(i, name, up, running)| Operation::SetLink(i, name, up, running)),
        1 => index().prop_map(Operation::DeleteLink),
        6 => any_address.clone().prop_map(Operation::SetAddress),
        3 => any_address.prop_map(Operation::DeleteAddress),
    ]
}

/// A table without the order of IPv4 addresses.
fn unordered(mut table: Interfaces) -> Interfaces {
    for list in table.ipv4.values_mut() {
        list.sort_by_key(|entry| (entry.address, entry.prefix));
    }
    table
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))] // 1.1 ms each

    #[test]
    fn followed_from_the_beginning_the_table_is_what_a_dump_would_give(operations in vec(operation(), 0..60)) {
        let (mut kernel, mut table) = (Kernel::default(), Interfaces::default());
        for operation in operations {
            let before = table.clone();
            let mut changed = false;
            for change in kernel.does(operation) {
                changed |= table.apply(change);
            }
            prop_assert_eq!(&table, &kernel.dump());
            prop_assert!(changed || before == table, "a change that was not called one");
        }
    }

    /// The monitor is open before the dump: what happens meanwhile is in the dump and heard again after it. The order of
    /// IPv4 addresses may then be off until the next dump, if one was removed and added again within that instant.
    #[test]
    fn a_dump_and_notices_from_before_it_give_what_a_later_dump_would(
        operations in vec(operation(), 0..60), open in 0usize..60, dumped in 0usize..60,
    ) {
        let mut kernel = Kernel::default();
        let mut table = Interfaces::default();
        let mut notices = Vec::new();
        let dumped = dumped.max(open);
        for (n, operation) in operations.into_iter().enumerate() {
            if n == dumped {
                table = kernel.dump();
            }
            let heard = kernel.does(operation);
            if n >= open {
                notices.extend(heard);
            }
            if n < dumped {
                table = kernel.dump();
            }
        }
        for notification in notices {
            table.apply(notification);
        }
        prop_assert_eq!(unordered(table), unordered(kernel.dump()));
    }

    /// Notices are lost. The queue before the loss is thrown away, then comes the dump.
    #[test]
    fn after_a_loss_and_a_dump_the_table_is_right_again(
        before in vec(operation(), 0..30), lost in vec(operation(), 0..30), after in vec(operation(), 0..30),
    ) {
        let (mut kernel, mut table) = (Kernel::default(), Interfaces::default());
        for change in before.into_iter().flat_map(|operation| kernel.does(operation)) {
            table.apply(change);
        }
        for operation in lost {
            kernel.does(operation);
        }
        table = kernel.dump();
        for change in after.into_iter().flat_map(|operation| kernel.does(operation)) {
            table.apply(change);
        }
        prop_assert_eq!(table, kernel.dump());
    }
}
