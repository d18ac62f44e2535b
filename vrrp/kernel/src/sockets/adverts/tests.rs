use super::super::filter;
use super::*;
use crate::lab::in_namespace;

/// Unasked, the kernel holds some hundred.
#[test]
fn adverts_of_some_seconds_fit_a_socket_whatever_the_system_allows_by_default() {
    in_namespace(|| {
        for family in [Family::V4, Family::V6] {
            let socket = AdvertSocket::open("lo", 1, family, &filter::nothing()).unwrap();
            assert!(socket.capacity() >= 10_000, "{family}: {}", socket.capacity());
        }
    });
}
