//! Properties of all messages.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;

fn opens() -> impl Strategy<Value = Open> {
    let families =
        prop_oneof![Just(BTreeSet::from([Family::V4])), Just([Family::V6].into()), Just(Family::ALL.into()),];
    let numbers = any::<u32>().prop_filter_map("an AS", |number| Asn::new(number).ok());
    let small = any::<u16>().prop_filter_map("an AS", |number| Asn::new(number.into()).ok());
    let hold = any::<u16>().prop_filter_map("a hold time", |seconds| HoldTime::new(seconds).ok());
    let id = any::<u32>().prop_filter_map("an identifier", |bits| RouterId::new(bits.into()).ok());
    let four_octet = prop_oneof![(numbers, Just(true)), (small, any::<bool>())];
    (four_octet, hold, id, families, any::<bool>(), any::<bool>()).prop_map(
        |((asn, four_octet), hold_time, router_id, families, route_refresh, extended_next_hop)| {
            let four_octet_as = four_octet.then_some(asn.get());
            let capabilities = Capabilities { families, route_refresh, extended_next_hop, four_octet_as };
            Open { asn, hold_time, router_id, capabilities }
        },
    )
}

/// Bytes most of which are small, as lengths and types are.
fn small_bytes(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![2 => Just(0), 4 => 0..8_u8, 1 => 8..64_u8, 1 => any::<u8>()], length)
}

fn headed(kind: u8, body: &[u8]) -> Vec<u8> {
    encoded(|out| message(out, kind, |out| out.extend(body)))
}

proptest! {
    // shows: bgp B31, B60
    #[test]
    fn an_offer_is_decoded_as_it_was_encoded(open in opens()) {
        prop_assert_eq!(decoded(&encoded(|out| open.encode(out))), Ok(Message::Open(open)));
    }

    // shows: bgp B58, B60
    #[test]
    fn a_notification_is_decoded_as_it_was_encoded(code in any::<(u8, u8)>(), data in vec(any::<u8>(), 0..300)) {
        let notification = Notification { error: ErrorCode(code.0, code.1), data };
        let _ = notification.to_string();
        prop_assert_eq!(decoded(&encoded(|out| notification.encode(out))), Ok(Message::Notification(notification)));
    }

    // shows: bgp B60
    #[test]
    fn any_bytes_are_decoded_or_refused_without_panic(
        bytes in vec(any::<u8>(), 0..200),
        (length, kind) in (0_u16..300, 0_u8..7),
    ) {
        let _ = decode(&bytes);
        let [high, low] = length.to_be_bytes();
        let _ = decode(&[&MARKER[..], &[high, low, kind], &bytes].concat());
    }

    // shows: bgp B60
    #[test]
    fn any_body_is_decoded_or_refused_without_panic(kind in 0_u8..7, body in small_bytes(0..200)) {
        if let Ok(Some((message, length))) = decode(&headed(kind, &body)) {
            prop_assert_eq!(length, 19 + body.len());
            if let Message::Open(open) = message
                && !open.capabilities.families.is_empty()
            {
                prop_assert_eq!(decoded(&encoded(|out| open.encode(out))), Ok(Message::Open(open)));
            }
        }
    }

    // shows: bgp B55, B60
    #[test]
    fn any_parts_of_an_update_are_counted_without_panic(
        parts in [small_bytes(0..40), small_bytes(0..80), small_bytes(0..40)],
    ) {
        let [withdrawn, attributes, reachable] = &parts;
        let length = |part: &[u8]| u16::try_from(part.len()).unwrap().to_be_bytes();
        let body = [&length(withdrawn), &withdrawn[..], &length(attributes), attributes, reachable].concat();
        let counted = decoded(&headed(UPDATE, &body));
        prop_assert!(matches!(counted, Ok(Message::Update(_))));
    }

    // shows: bgp B32, B60
    /// The header is right, so that the parameters are reached. An offer of foreign families alone is never sent.
    #[test]
    fn a_changed_offer_is_refused_or_encoded_again_to_an_equal_one(
        open in opens(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut bytes = encoded(|out| open.encode(out));
        for (index, value) in changes {
            *index.get_mut(&mut bytes[19..]) = value;
        }
        if let Ok(Message::Open(open)) = decoded(&bytes)
            && !open.capabilities.families.is_empty()
        {
            prop_assert_eq!(decoded(&encoded(|out| open.encode(out))), Ok(Message::Open(open)));
        }
    }

    // shows: bgp B1, B42
    #[test]
    fn what_is_announced_is_counted_and_fits(
        addresses in btree_set(0x0a00_0000_u32..0x0b00_0000, 1..1500),
        prepend in any::<u8>(),
    ) {
        let peering = external(64512);
        let next_hop = peering.next_hop(Family::V4).unwrap();
        let attributes = Attributes { prepend, ..Attributes::default() }.encode(&peering, next_hop);
        let to_prefix = |bits: &u32| Prefix::try_from(std::net::IpAddr::V4((*bits).into())).unwrap();
        let mut out = Vec::new();
        let number = announce(&mut out, Family::V4, next_hop, &attributes, addresses.iter().map(to_prefix));
        prop_assert!(out.len() <= MAX_LENGTH);
        // Another one would not have fitted.
        prop_assert!(number == addresses.len() || out.len() + 5 > MAX_LENGTH);
        let announced = u32::try_from(number).unwrap();
        let counted = ReceivedUpdate { announced, ..ReceivedUpdate::default() };
        prop_assert_eq!(decoded(&out), Ok(Message::Update(counted)));
    }
}
