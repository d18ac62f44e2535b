use super::*;
use crate::netfilter::attributes;

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
    let whole = question(
        Operation::GetTable,
        TableFamily::Inet,
        &Attributes::new().text(1, "windlass").number(2, 5),
        1,
    );
    for length in 0..=whole.len() {
        for (at, byte) in (0..length).flat_map(|at| [0, 1, 3, 4, 0x7f, 0x80, 0xff].map(|byte| (at, byte))) {
            let mut bytes = whole[..length].to_vec();
            bytes[at] = byte;
            for reply in replies(&bytes) {
                if let Content::Object(attributes) = reply.content {
                    assert!(attributes::read(attributes).count() <= attributes.len() / 4);
                }
            }
        }
    }
}
