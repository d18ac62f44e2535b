use http::HeaderValue;
use proptest::prelude::*;

use super::*;

#[test]
fn a_request_is_as_protobuf_has_it() {
    assert_eq!(request(""), [0, 0, 0, 0, 0]);
    assert_eq!(request("a.B"), [0, 0, 0, 0, 5, 0x0a, 3, b'a', b'.', b'B']);
    let long = request(&"x".repeat(200));
    assert_eq!(long[..8], [0, 0, 0, 0, 203, 0x0a, 0xc8, 0x01]);
    assert_eq!(long.len(), 208);
}

#[test]
fn the_status_is_field_1_whatever_else_is_there() {
    for (message, expected) in [
        (&[0, 0, 0, 0, 2, 8, 1][..], Some(1)),
        (&[0, 0, 0, 0, 2, 8, 2], Some(2)),
        (&[0, 0, 0, 0, 0], Some(0)),
        (&[0, 0, 0, 0, 6, 0x12, 2, b'x', b'y', 8, 1], Some(1)),
        (&[0, 0, 0, 0, 11, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 8, 1], Some(1)),
        (&[0, 0, 0, 0, 7, 0x15, 0, 0, 0, 0, 8, 1], Some(1)),
        (&[0, 0, 0, 0, 3, 8, 0x81, 0], Some(1)),
        // Compressed, of another length, cut off, of a group, too long a number.
        (&[1, 0, 0, 0, 2, 8, 1], None),
        (&[0, 0, 0, 0, 3, 8, 1], None),
        (&[0, 0, 0, 0], None),
        (&[], None),
        (&[0, 0, 0, 0, 1, 8], None),
        (&[0, 0, 0, 0, 3, 0x12, 9, 1], None),
        (&[0, 0, 0, 0, 1, 0x0b], None),
        (&[0, 0, 0, 0, 11, 8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255], None),
    ] {
        assert_eq!(serving_status(message), expected, "{message:?}");
    }
}

#[test]
fn an_answer_is_well_only_if_it_says_serving() {
    let serving = &[0, 0, 0, 0, 2, 8, 1][..];
    for (trailers, message, expected) in [
        (&[("grpc-status", "0")][..], serving, None),
        (&[], serving, Some("its answer has no grpc-status: does it speak gRPC?")),
        (&[("grpc-status", "0")], &[0, 0, 0, 0, 2, 8, 2], Some("it answers NOT_SERVING")),
        (&[("grpc-status", "0")], &[0, 0, 0, 0, 0], Some("it answers UNKNOWN")),
        (&[("grpc-status", "0")], &[0, 0, 0, 0, 2, 8, 3], Some("it does not know service \"s\"")),
        (&[("grpc-status", "0")], &[0, 0, 0, 0, 2, 8, 9], Some("it answers with the unknown status 9")),
        (&[("grpc-status", "0")], &[], Some("its answer is not a HealthCheckResponse")),
        (&[("grpc-status", "5")], &[], Some("it does not know service \"s\"")),
        (&[("grpc-status", "12")], &[], Some("it does not implement grpc.health.v1.Health")),
        (
            &[("grpc-status", "14"), ("grpc-message", "busy")],
            serving,
            Some("it answers grpc-status 14 (busy)"),
        ),
    ] {
        let pairs = trailers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
        assert_eq!(
            judge(&pairs.collect(), message, "s").err().map(|failure| failure.to_string()).as_deref(),
            expected,
            "{trailers:?} {message:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))] // 0.039 ms each

    #[test]
    fn no_message_does_harm(message in prop::collection::vec(any::<u8>(), 0..40), length in 0u8..40) {
        serving_status(&message);
        let framed = [&[0, 0, 0, 0, length][..], &message].concat();
        serving_status(&framed);
    }
}
