use std::io;

use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::netfilter::contents;
use windlass_kernel::netfilter::element;
use windlass_kernel::netfilter::message::TableFamily;

use super::*;
use crate::lab::unhex;

#[test]
fn an_error_names_what_was_tried_and_what_to_do() {
    let table = [
        (libc::EPERM, "add: [NET_ADMIN]"),
        (libc::EOPNOTSUPP, "modules nf_tables"),
        (libc::EAFNOSUPPORT, "modules nf_tables"),
        (libc::EPROTONOSUPPORT, "modules nf_tables"),
        (libc::ENOMEM, "`nft list ruleset`"),
    ];
    for (number, remedy) in table {
        let failure = Failure::new("try it", io::Error::from_raw_os_error(number));
        let said = GuardError::from(failure).to_string();
        assert!(said.starts_with("cannot try it: ") && said.contains(remedy), "{said}");
    }
}

/// Written by hand from the kernel's headers, for a machine of little-endian byte order.
#[test]
#[cfg(target_endian = "little")]
fn a_batch_of_one_address_is_the_golden_bytes() {
    let wanted = Guarded { vips: ["192.0.2.50".parse().unwrap()].into(), ..Guarded::default() };
    let golden = [
        "14000000 1000 0100 07000000 00000000 00 00 000a", // length 20, begin, request, sequence 7, subsystem
        "3c000000 0c0a 0104 08000000 00000000 01 00 0000", // length 60, new element, create+request, inet
        "0600 0100 7700 0000",                             // table "w", padded
        "0a00 0200 766970733400 0000",                     // set "vips4", padded
        "1400 0380 1000 0180 0c00 0180 0800 0100",         // nested: list, element, key, value
        "c0000232",
        "3c000000 0c0a 0504 09000000 00000000 01 00 0000", // the same for the next set, with ack
        "0600 0100 7700 0000",
        "0b00 0200 6b6e6f776e3400 00", // set "known4", padded
        "1400 0380 1000 0180 0c00 0180 0800 0100",
        "c0000232",
        "14000000 1100 0100 0a000000 00000000 00 00 000a", // end
    ];
    let wanted = Contents { guarded: wanted, ..Contents::default() };
    let bytes = contents::update("w", &Contents::default(), &wanted).encode(TableFamily::Inet, 7);
    assert_eq!(bytes, unhex(&golden.concat()));
}

#[test]
fn each_message_of_a_batch_has_a_name_for_errors() {
    let parts = Parts {
        forwards: true,
        shares: false,
        masks_events: false,
        masquerade_mark: 0x4000,
        marks: MarkMask::default(),
        awake_ms: 15_000,
    };
    let batch = contents::install("w", &Contents { parts, ..Contents::default() });
    assert_eq!(batch.what(0), None, "the beginning");
    assert_eq!(batch.what(1), Some("create the nftables table inet w"));
    assert_eq!(batch.what(2), Some("delete the old nftables table inet w"));
    assert_eq!(batch.what(batch.last()), Some("create rule 4 of the chain movable in the table inet w"));
    assert_eq!(batch.what(batch.messages() - 1), None, "the end");
}

#[test]
fn whatever_is_listed_as_elements_is_read_to_an_end() {
    let value = Attributes::new().nest(1, &Attributes::new().bytes(1, &[192, 0, 2, 50]));
    let whole = Attributes::new().nest(3, &Attributes::new().nest(1, &value));
    let whole = whole.as_bytes();
    assert_eq!(element::read(whole).len(), 1);
    for length in 0..=whole.len() {
        for (at, byte) in (0..length).flat_map(|at| [0, 1, 3, 4, 0x7f, 0x80, 0xff].map(|byte| (at, byte))) {
            let mut bytes = whole[..length].to_vec();
            bytes[at] = byte;
            assert!(element::read(&bytes).len() <= bytes.len() / 4);
        }
    }
}
