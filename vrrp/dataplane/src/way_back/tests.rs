use super::*;
use crate::lab::unhex;

const SECRET_BYTES: [u8; SECRET] = [0x12, 0x34, 5, 6, 7, 8, 9, 10];

fn reply(family: Family) -> Vec<u8> {
    let mut message = request(family, SECRET_BYTES).to_vec();
    message[0] = match family {
        Family::V4 => 0,
        Family::V6 => 129,
    };
    match family {
        // The shortest header, of which only the length is looked at.
        Family::V4 => [&[0x45][..], &[0; 19], &message].concat(),
        Family::V6 => message,
    }
}

#[test]
fn a_request_is_the_golden_bytes() {
    let golden = "0800 f8dc 1234 0000 77696e646c617373 1234 0506 0708 090a";
    let bytes = request(Family::V4, SECRET_BYTES);
    assert_eq!(bytes.as_slice(), unhex(golden));
    assert_eq!(internet_checksum(&bytes), 0, "as the receiver sums it up");
    let golden = "8000 0000 1234 0000 77696e646c617373 1234 0506 0708 090a";
    let bytes = request(Family::V6, SECRET_BYTES);
    assert_eq!(bytes.as_slice(), unhex(golden));
}

#[test]
fn only_the_reply_to_the_very_request_is_an_answer() {
    for family in [Family::V4, Family::V6] {
        let asked = request(family, SECRET_BYTES);
        let reply = reply(family);
        assert!(answers(family, &reply, &asked), "{family:?}");
        assert!(!answers(family, &reply, &request(family, [0; SECRET])), "{family:?}: another's");
        for length in 0..reply.len() {
            assert!(!answers(family, &reply[..length], &asked), "{family:?}: cut off after {length}");
        }
        let message = reply.len() - LENGTH;
        for at in (message..reply.len()).filter(|at| !(message + 2..message + 4).contains(at)) {
            // Not the number of the request, which is 0 in each.
            if !(message + 6..message + 8).contains(&at) {
                let mut other = reply.clone();
                other[at] ^= 1;
                assert!(!answers(family, &other, &asked), "{family:?}: another byte {}", at - message);
            }
        }
        let longer = [reply.as_slice(), &[0]].concat();
        assert!(!answers(family, &longer, &asked), "{family:?}: more than was asked");
    }
    let no_header = [0x4f; 10];
    assert!(!answers(Family::V4, &no_header, &request(Family::V4, SECRET_BYTES)));
}
