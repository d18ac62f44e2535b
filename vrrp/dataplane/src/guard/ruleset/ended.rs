//! Rules about connections that were translated to a backend before the claim to their address, port or client ended: both ends get a
//! reset at the next packet. A packet is judged by where its connection began, so that answers of backends are judged as well. Pure.

use super::super::set::{Kind, Set};
use super::{ANSWER, ESTABLISHED, FLAGS, ICMP, ICMPV6, TCP};
use windlass_kernel::netfilter::expression::{
    Comparison::{Equal, NotEqual},
    Connection::{Direction, State},
    Expression::{
        self, Compare, Connection, From, Mask, MaskByte, Meta, NotIn, OriginalPort, OriginalSource, Verdict,
    },
    Length,
    Meta::Protocol,
    Verdict::{Accept, Goto},
};
use windlass_kernel::netfilter::packet::{self, TRANSLATED};
use windlass_vrrp::Family;

/// The chain that refuses what is over.
pub(super) const OVER: &str = "over";
const REFUSED: Expression = Verdict(Goto(OVER));
/// TCP: RST.
const RESET: u8 = 0x04;
pub(super) const IS_ANSWER: [Expression; 2] = [Connection(Direction), Compare(Equal, ANSWER)];
pub(super) const IS_TRANSLATED: [Expression; 3] = [TRANSLATED[0], TRANSLATED[1], Compare(NotEqual, &[0; 4])];
pub(super) const IS_UNTRANSLATED: [Expression; 3] = [TRANSLATED[0], TRANSLATED[1], Compare(Equal, &[0; 4])];

/// The rules of [`OVER`]: packets that report an end pass, as the answers of this very chain do.
pub(super) fn over() -> Vec<Vec<Expression>> {
    let of_protocol = |protocol| [Meta(Protocol), Compare(Equal, protocol)];
    vec![
        [of_protocol(ICMP).as_slice(), &[Verdict(Accept)]].concat(),
        [of_protocol(ICMPV6).as_slice(), &[Verdict(Accept)]].concat(),
        [of_protocol(TCP).as_slice(), &[FLAGS, MaskByte(RESET), Compare(NotEqual, &[0]), Verdict(Accept)]]
            .concat(),
        vec![Verdict(Goto("refuse"))],
    ]
}

impl Set {
    /// The rule that refuses all packets of translated connections to the set's addresses.
    pub(super) fn over(self) -> Vec<Expression> {
        [self.is_of_connection().as_slice(), &IS_TRANSLATED, &[REFUSED]].concat()
    }

    /// The rule that refuses what backends answer on connections to ports that no owner has any more.
    pub(super) fn no_answers_of_other_ports(self) -> Vec<Expression> {
        let ports = Self { kind: Kind::Ports, ..self };
        let port = packet::original_service(self.family);
        [
            self.is_of_connection().as_slice(),
            &IS_ANSWER,
            &IS_TRANSLATED,
            &port,
            &[NotIn(ports.name()), REFUSED],
        ]
        .concat()
    }

    /// The rule that refuses what backends answer to clients that may no longer send to the port.
    pub(super) fn no_answers_to_others(self) -> Vec<Expression> {
        let sources = Self { kind: Kind::Sources, ..self };
        let [destination, protocol, port, client] = self.original_ends();
        let other = [destination, protocol, port, client, NotIn(sources.name())];
        [self.is_of_connection().as_slice(), &IS_ANSWER, &IS_TRANSLATED, &other, &[REFUSED]].concat()
    }

    /// The rule that resets established TCP connections of clients that may no longer send to the port: what is new is dropped.
    pub(super) fn no_more_from_others(self) -> Vec<Expression> {
        let sources = Self { kind: Kind::Sources, ..self };
        let established = [
            Meta(Protocol),
            Compare(Equal, TCP),
            Connection(State),
            Mask(ESTABLISHED),
            Compare(NotEqual, &[0; 4]),
        ];
        let other = self.has_no_source_in(sources);
        [self.has_destination().as_slice(), &established, &other, &[REFUSED]].concat()
    }

    /// Destination, protocol, port and source of the first packet of the packet's connection.
    pub(super) fn original_ends(self) -> [Expression; 4] {
        let client = match self.family {
            Family::V4 => const { &OriginalSource(Length::V4) },
            Family::V6 => const { &OriginalSource(Length::V6) },
        };
        let [destination, protocol, port] = packet::original_service(self.family);
        [destination, protocol, port, From(packet::words(self.family).saturating_add(2), client)]
    }

    /// The protocol of the packet and the destination port of its connection's first packet, after that one's destination.
    pub(super) fn original_port(self) -> [Expression; 2] {
        packet::after_address(self.family, &OriginalPort)
    }
}
