use windlass_engine::bgp::session::DownReason;
use windlass_engine::bgp::wire::{ErrorCode, Notification};

use super::*;

#[test]
fn errors_that_an_administrator_can_remove_have_a_remedy() {
    let received = |error: ErrorCode| DownReason::Received(error.into()).to_string();
    for (error, expected) in [
        (DownReason::ConnectFailed.to_string(), "TCP port 179"),
        ("TCP: Connection refused (os error 111)".to_owned(), "nothing listens there"),
        (
            "cannot use the source address: Cannot assign requested address (os error 99)".to_owned(),
            "sourceAddress",
        ),
        ("TCP: No route to host (os error 113)".to_owned(), "compare the router's address"),
        ("cannot connect: Network is unreachable (os error 101)".to_owned(), "add a route"),
        (
            DownReason::Sent(Notification::from(ErrorCode::NOT_SYNCHRONIZED)).to_string(),
            "what answers there is none",
        ),
        (received(ErrorCode::BFD_DOWN), "intervals of bfd"),
        (received(ErrorCode::BAD_PEER_AS), "AS numbers"),
        (DownReason::Sent(Notification::from(ErrorCode::BAD_PEER_AS)).to_string(), "AS numbers"),
        (received(ErrorCode::BAD_IDENTIFIER), "routerID"),
        (received(ErrorCode::UNSUPPORTED_CAPABILITY), "families"),
        (received(ErrorCode::HOLD_TIMER_EXPIRED), "packet loss"),
        (received(ErrorCode::PEER_DECONFIGURED), "neighbour on the router"),
        (DownReason::Received(Notification::shutdown("maintenance")).to_string(), "enable this neighbour"),
        (received(ErrorCode(6, 7)), "each router once"),
        (received(ErrorCode(6, 1)), "limit of prefixes"),
        ("something new".to_owned(), "log of the router"),
    ] {
        assert!(remedy(&error).contains(expected), "{error}: {}", remedy(&error));
    }
}
