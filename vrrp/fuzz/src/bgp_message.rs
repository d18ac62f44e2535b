//! BGP messages: bytes of a peer, in pieces.

use windlass_bgp::wire::{HEADER_LENGTH, MAX_LENGTH, Message, Notification, decode};

use crate::input::Input;

/// One input of `bgp_message`: where the first piece ends, then messages.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let Some(cut) = input.short() else { return };
    let mut bytes = input.rest();
    loop {
        let outcome = decode(bytes);
        let whole = match &outcome {
            Ok(Some((_, length))) => *length,
            Ok(None) | Err(_) => bytes.len(),
        };
        in_pieces(&bytes[..whole], usize::from(cut), &outcome);
        match outcome {
            Ok(Some((message, length))) => {
                assert!((HEADER_LENGTH..=MAX_LENGTH).contains(&length) && length <= bytes.len());
                encoded_again(&message, length);
                bytes = &bytes[length..];
            }
            Ok(None) => {
                assert!(bytes.len() < MAX_LENGTH);
                return;
            }
            Err(answer) => {
                let mut out = Vec::new();
                answer.encode(&mut out);
                assert_eq!(decode(&out), Ok(Some((Message::Notification(answer), out.len()))));
                return;
            }
        }
    }
}

/// The beginning of a message is not judged, or judged as the whole.
fn in_pieces(bytes: &[u8], cut: usize, whole: &Result<Option<(Message, usize)>, Notification>) {
    for end in [HEADER_LENGTH - 1, HEADER_LENGTH, cut, bytes.len().saturating_sub(1)] {
        if end < bytes.len() {
            match decode(&bytes[..end]) {
                Ok(None) => {}
                early => assert_eq!(&early, whole, "judged after {end} of {} bytes", bytes.len()),
            }
        }
    }
}

/// Checks that a message that is accepted means the same when it is sent, and is printed without control characters.
fn encoded_again(message: &Message, length: usize) {
    let mut out = Vec::new();
    match message {
        // The session refuses it (2/7), and none of ours is without a family.
        Message::Open(open) if open.capabilities.families.is_empty() => return,
        Message::Open(open) => open.encode(&mut out),
        Message::Notification(notification) => {
            notification.encode(&mut out);
            assert_eq!(out.len(), length);
            for text in [notification.to_string(), notification.communication().unwrap_or_default()] {
                assert!(!text.chars().any(char::is_control), "{text:?}");
            }
            assert!(notification.unwrapped().data.len() <= notification.data.len());
        }
        Message::Update(update) => {
            assert!(usize::try_from(update.announced + update.withdrawn).is_ok_and(|count| count < length));
            return;
        }
        Message::Keepalive | Message::RouteRefresh(_) => return,
    }
    assert_eq!(decode(&out), Ok(Some((message.clone(), out.len()))));
}
