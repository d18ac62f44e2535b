use super::*;

const TAG: u8 = 99;

fn binding(address: &str) -> Binding {
    Binding { interface: 2, address: address.parse().unwrap() }
}

/// What the kernel tells of an address of ours.
fn ours(binding: Binding) -> Address {
    Address {
        index: binding.interface,
        ip: binding.address,
        prefix: if binding.address.is_ipv4() { 32 } else { 128 },
        peer: binding.address,
        scope: 0,
        flags: AddressFlags::Noprefixroute,
        protocol: TAG,
    }
}

#[test]
fn an_ipv6_address_serves_when_the_kernel_has_told_of_it_and_until_it_is_gone() {
    let now = Time::default();
    let (v4, v6) = (binding("192.0.2.50"), binding("2001:db8::50"));
    let mut addresses = Addresses::new(TAG);
    addresses.succeed(&[AddressOp::Add(v4), AddressOp::Add(v6)], Duration::from_secs(3), now);
    assert!(addresses.serves(&v4), "its order is done when it is answered");
    assert!(!addresses.serves(&v6));

    assert_eq!(addresses.apply_change(&Change::Address(ours(v6)), now), None);
    assert!(addresses.serves(&v6));

    assert_eq!(addresses.apply_change(&Change::AddressGone(ours(v6)), now), Some(v6));
    assert!(!addresses.serves(&v6));
    addresses.succeed(&[AddressOp::Add(v6)], Duration::from_secs(3), now);
    assert!(!addresses.serves(&v6), "bound anew, it is waited for anew");
}

#[test]
fn what_was_on_an_interface_that_is_gone_does_not_serve_on_the_next_of_its_number() {
    let (now, v6) = (Time::default(), binding("2001:db8::50"));
    let mut addresses = Addresses::new(TAG);
    addresses.succeed(&[AddressOp::Add(v6)], Duration::from_secs(3), now);
    addresses.apply_change(&Change::Address(ours(v6)), now);
    addresses.apply_change(&Change::LinkGone(v6.interface), now);
    addresses.succeed(&[AddressOp::Add(v6)], Duration::from_secs(3), now);
    assert!(!addresses.serves(&v6));
}
