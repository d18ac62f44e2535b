use super::*;
use crate::guard::{Guarded, attributes, ruleset, set};

/// Written by hand from the kernel's headers, for a machine of little-endian byte order.
#[test]
#[cfg(target_endian = "little")]
fn a_batch_of_one_address_is_the_golden_bytes() {
    let wanted = Guarded { vips: ["192.0.2.50".parse().unwrap()].into(), ..Guarded::default() };
    let golden = [
        "14000000 1000 0100 07000000 00000000 00 00 000a", // length 20, begin, request, sequence 7, subsystem
        "3c000000 0c0a 0504 08000000 00000000 01 00 0000", // length 60, new element, create+ack+request, inet
        "0600 0100 7700 0000",                             // table "w", padded
        "0a00 0200 766970733400 0000",                     // set "vips4", padded
        "1400 0380 1000 0180 0c00 0180 0800 0100",         // nested: list, element, key, value
        "c0000232",
        "14000000 1100 0100 09000000 00000000 00 00 000a", // end
    ];
    let bytes = ruleset::update("w", &Guarded::default(), &wanted).encode(7);
    assert_eq!(bytes, attributes::unhex(&golden.concat()));
}

fn error(code: i32, sequence: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, ERROR, 0, sequence, (0, 0), &Attributes::new());
    bytes[16..20].copy_from_slice(&code.to_ne_bytes());
    bytes
}

#[test]
fn an_error_tells_its_number_and_what_it_answers() {
    let bytes = [error(-libc::ENOENT, 3), error(0, 4)].concat();
    let found: Vec<_> = replies(&bytes).collect();
    assert_eq!(found.iter().map(|reply| reply.sequence).collect::<Vec<_>>(), [3, 4]);
    let Content::End(Err(first)) = &found[0].content else { panic!("{found:?}") };
    assert_eq!(first.raw_os_error(), Some(libc::ENOENT));
    assert!(matches!(found[1].content, Content::End(Ok(()))));
}

#[test]
fn whatever_is_received_is_read_to_an_end() {
    let whole = question(Operation::GetTable, &Attributes::new().text(1, "windlass").number(2, 5), 1);
    for length in 0..=whole.len() {
        for (at, byte) in (0..length).flat_map(|at| [0, 1, 3, 4, 0x7f, 0x80, 0xff].map(|byte| (at, byte))) {
            let mut bytes = whole[..length].to_vec();
            bytes[at] = byte;
            for reply in replies(&bytes) {
                if let Content::Object(attributes) = reply.content {
                    assert!(attributes::read(attributes).count() <= attributes.len() / 4);
                    set::read(attributes);
                }
            }
        }
    }
}

#[test]
fn each_message_of_a_batch_has_a_name_for_errors() {
    let batch = ruleset::install("w", &Guarded::default(), true);
    assert_eq!(batch.what(0), None, "the beginning");
    assert_eq!(batch.what(1), Some("create the nftables table inet w"));
    assert_eq!(batch.what(2), Some("delete the old nftables table inet w"));
    assert_eq!(batch.what(batch.last()), Some("create rule 2 of the chain redirects in the table inet w"));
    assert_eq!(batch.what(batch.messages() - 1), None, "the end");
}
