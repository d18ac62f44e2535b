//! User and groups in the subject of a client certificate: common name and organizations (RFC 5280 §4.1.2.6).

use super::User;
use super::der::{SEQUENCE, SET, take, value};

const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.4.10
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// The user that a subject names: `subject` is the content of the Name's outer SEQUENCE.
///
/// # Errors
/// A subject that is no DER, that has no common name, or whose names are in a form that is not read.
pub(crate) fn user(mut subject: &[u8]) -> Result<User, &'static str> {
    let mut user = User::default();
    while !subject.is_empty() {
        let mut attributes = take(&mut subject, SET)?;
        while !attributes.is_empty() {
            let mut attribute = take(&mut attributes, SEQUENCE)?;
            match take(&mut attribute, OBJECT_IDENTIFIER)? {
                COMMON_NAME => text(attribute)?.clone_into(&mut user.name),
                ORGANIZATION => user.groups.push(text(attribute)?.to_owned()),
                _ => {}
            }
        }
    }
    if user.name.is_empty() { Err("its subject has no common name") } else { Ok(user) }
}

fn text(mut attribute: &[u8]) -> Result<&str, &'static str> {
    let (tag, content) = value(&mut attribute)?;
    match tag {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => {
            std::str::from_utf8(content).map_err(|_| "its subject is no UTF-8")
        }
        _ => Err("its subject has a name that is neither UTF8String, PrintableString nor IA5String"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn attribute(oid: &[u8], tag: u8, text: &str) -> Vec<u8> {
        let pair = [tlv(OBJECT_IDENTIFIER, oid), tlv(tag, text.as_bytes())].concat();
        tlv(SET, &tlv(SEQUENCE, &pair))
    }

    #[test]
    fn the_common_name_is_the_user_and_the_organizations_are_the_groups() {
        let country = attribute(&[0x55, 0x04, 0x06], PRINTABLE_STRING, "CH");
        let subject = [
            attribute(ORGANIZATION, UTF8_STRING, "system:masters"),
            country,
            attribute(ORGANIZATION, PRINTABLE_STRING, "ops"),
            attribute(COMMON_NAME, IA5_STRING, "jane"),
        ]
        .concat();
        let read = user(&subject).unwrap();
        assert_eq!((read.name.as_str(), read.groups), ("jane", vec!["system:masters".into(), "ops".into()]));
        // Cut anywhere it is never somebody else, and never a panic.
        for end in 0..subject.len() {
            assert!(user(&subject[..end]).is_err(), "cut at {end}");
        }
        let long = "x".repeat(200);
        let pair =
            [tlv(OBJECT_IDENTIFIER, COMMON_NAME), [&[UTF8_STRING, 0x81, 200], long.as_bytes()].concat()];
        let pair = pair.concat();
        let sequence = [&[SEQUENCE, 0x81, u8::try_from(pair.len()).unwrap()], &*pair].concat();
        let set = [&[SET, 0x81, u8::try_from(sequence.len()).unwrap()], &*sequence].concat();
        assert_eq!(user(&set).unwrap().name, long);
    }

    #[test]
    fn a_subject_that_names_nobody_is_refused() {
        let table: [(Vec<u8>, &str); 6] = [
            (Vec::new(), "no common name"),
            (attribute(ORGANIZATION, UTF8_STRING, "system:masters"), "no common name"),
            (attribute(COMMON_NAME, UTF8_STRING, ""), "no common name"),
            (attribute(COMMON_NAME, 0x1e, "jane"), "neither UTF8String"),
            (tlv(SEQUENCE, &[]), "RFC 5280"),
            (vec![SET, 0x84, 1, 0, 0, 0], "64 KiB"),
        ];
        for (subject, reason) in table {
            assert!(user(&subject).unwrap_err().contains(reason), "{subject:?}");
        }
    }
}
