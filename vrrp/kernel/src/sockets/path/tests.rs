use socket2::{Domain, Type};

use super::*;

const PORT: u16 = 10_113;

/// Returns true if the kernel passes the frame through the filter, on a pair of sockets that carries any bytes.
fn passes(family: Family, length: u32, frame: &[u8]) -> bool {
    let (out, inbound) = Socket::pair(Domain::UNIX, Type::DGRAM, None).unwrap();
    inbound.set_nonblocking(true).unwrap();
    inbound.attach_filter(&filter(family, PORT, length)).unwrap();
    // The filter's refusal is an error of the sender on this kind of socket, or silence.
    let _ = out.send(frame);
    (&inbound).read(&mut [0; 128]).is_ok()
}

#[test]
fn only_udp_to_the_port_of_the_length_and_without_options_passes() {
    for (family, length, version, protocol, port) in
        [(Family::V4, 74, 0x45, 23, 36), (Family::V6, 94, 0x60, 20, 56)]
    {
        let mut right = vec![0; length];
        (right[14], right[protocol]) = (version, 17);
        right[port..port + 2].copy_from_slice(&PORT.to_be_bytes());
        let passes = |frame: &[u8]| passes(family, u32::try_from(length).unwrap(), frame);
        assert!(passes(&right), "{family}");
        for at in [14, protocol, port, port + 1] {
            let mut other = right.clone();
            other[at] += 1;
            assert!(!passes(&other), "{family}, byte {at}");
        }
        assert!(!passes(&right[..length - 1]), "{family}, short");
        assert!(!passes(&[&right[..], &[0]].concat()), "{family}, long");
    }
}
