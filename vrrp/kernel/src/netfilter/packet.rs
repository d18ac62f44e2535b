//! Parts of packets that rules look at, by family.

use windlass_vrrp::Family;

use super::expression::{
    Base,
    Comparison::Equal,
    Connection::Status,
    Expression::{self, Compare, Connection, From, Mask, Meta, OriginalDestination, OriginalPort, Payload},
    Length,
    Meta::{Family as PacketFamily, Protocol},
};

/// Number of IPv4.
pub const IPV4: u8 = 2;
/// Number of IPv6.
pub const IPV6: u8 = 10;
/// Port of the sender.
pub const SOURCE_PORT: Expression = Payload { base: Base::Transport, offset: 0, length: 2 };
/// Port of the receiver.
pub const PORT: Expression = Payload { base: Base::Transport, offset: 2, length: 2 };
/// State of a connection on which nothing came back yet.
pub const NEW: [u8; 4] = 8_u32.to_ne_bytes();
/// Loads 0 unless the destination of the packet's connection is translated.
pub const TRANSLATED: [Expression; 2] = [Connection(Status), Mask(0x20_u32.to_ne_bytes())];

/// Returns the number of a family.
pub const fn number(family: Family) -> u8 {
    match family {
        Family::V4 => IPV4,
        Family::V6 => IPV6,
    }
}

/// Rule matches: "the packet is of this family".
pub const fn is_of(family: Family) -> [Expression; 2] {
    let number: &[u8] = match family {
        Family::V4 => &[IPV4],
        Family::V6 => &[IPV6],
    };
    [Meta(PacketFamily), Compare(Equal, number)]
}

/// Returns the number of words that an address takes, which is the word after one.
pub const fn words(family: Family) -> u32 {
    match family {
        Family::V4 => 1,
        Family::V6 => 4,
    }
}

/// Address of the sender.
pub const fn source(family: Family) -> &'static Expression {
    match family {
        Family::V4 => const { &Payload { base: Base::Network, offset: 12, length: 4 } },
        Family::V6 => const { &Payload { base: Base::Network, offset: 8, length: 16 } },
    }
}

/// Address of the receiver.
pub const fn destination(family: Family) -> &'static Expression {
    match family {
        Family::V4 => const { &Payload { base: Base::Network, offset: 16, length: 4 } },
        Family::V6 => const { &Payload { base: Base::Network, offset: 24, length: 16 } },
    }
}

/// Address of the receiver of the first packet of the packet's connection.
pub const fn original_destination(family: Family) -> Expression {
    OriginalDestination(match family {
        Family::V4 => Length::V4,
        Family::V6 => Length::V6,
    })
}

/// Protocol of the packet and this port, after an address.
pub const fn after_address(family: Family, port: &'static Expression) -> [Expression; 2] {
    [From(words(family), &Meta(Protocol)), From(words(family).saturating_add(1), port)]
}

/// Destination, protocol and port of the first packet of the packet's connection.
pub const fn original_service(family: Family) -> [Expression; 3] {
    let [protocol, port] = after_address(family, &OriginalPort);
    [original_destination(family), protocol, port]
}
