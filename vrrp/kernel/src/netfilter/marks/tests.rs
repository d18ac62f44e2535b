use super::*;

/// What a packet and its connection are marked with after these rules, as the kernel computes it.
fn after(rules: &[Vec<Expression>], loaded: u32, [mut packet, mut connection]: [u32; 2]) -> [u32; 2] {
    for rule in rules {
        let mut register = 0;
        for expression in rule {
            match *expression {
                Expression::Load(_) => register = loaded,
                Meta(PacketMark) => register = packet,
                Connection(Mark) => register = connection,
                Mask(mask) => register &= u32::from_ne_bytes(mask),
                Change(mask, turned) => {
                    register = register & u32::from_ne_bytes(mask) ^ u32::from_ne_bytes(turned);
                }
                Compare(NotEqual, [0, 0, 0, 0]) if register == 0 => break,
                Compare(NotEqual, [0, 0, 0, 0]) => {}
                MarkPacket => packet = register,
                MarkConnection => connection = register,
                other => panic!("{other:?}"),
            }
        }
    }
    [packet, connection]
}

#[test]
fn only_these_bits_are_copied_whatever_the_marks_were() {
    for bits in [0xf0, 0xf, 0x300, 0xff00_0000] {
        for [packet, connection, loaded] in [
            [0, 0, 0],
            [u32::MAX, 0, 0x5555_5555],
            [0x4000, 0x1bd1_0a5a, u32::MAX],
            [0xdead_beef, 0x0123_4567, 0x89ab_cdef],
        ] {
            let copied = |to: u32, from: u32| to & !bits | from & bits;
            let to_connection = to_connection(bits, &[Expression::Load(&[])]);
            let found = after(&to_connection, loaded, [packet, connection]);
            assert_eq!(found, [packet, copied(connection, loaded)], "{bits:x}");
            let found = after(&to_packet(bits), loaded, [packet, connection]);
            assert_eq!(found, [copied(packet, connection), connection], "{bits:x}");
        }
    }
}
