//! Rules about VIPs that were handed over: packets of connections that began on the previous Active go there. Pure.

use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::netfilter::expression::{
    Base,
    Comparison::{Equal, NotEqual},
    Connection::{Mark, State},
    Expression::{
        self, AddTo, Compare, Connection, Counter, From, In, Load, Mask, MaskAt, MaskByte, Meta,
        OriginalPort, Payload, TranslateTo, Verdict, Write,
    },
    Meta::{InputInterface, Mark as PacketMark, Protocol},
    Verdict::{Accept, Drop, Goto},
};
use windlass_kernel::netfilter::marks::{self, LEAD};
use windlass_kernel::netfilter::packet::{PORT, SOURCE_PORT, destination, is_of, number, source, words};
use windlass_vrrp::Family;

use super::super::set::{Kind, Set};
use super::ended::{IS_ANSWER, IS_UNTRANSLATED};
use super::{
    FLAGS, FLAGS_THAT_MATTER, ICMP, ICMPV6, INVALID, IS_NEW, REDIRECT, REDIRECT_V6, REDIRECTED, SYN, TCP,
    of_type,
};

const CONNECTION_MARK: Expression = Connection(Mark);
const PACKET_MARK: Expression = Meta(PacketMark);
/// Port that no Service has.
const NO_PORT: &[u8] = &[0; 2];
/// Writes the destination port. The checksum stays, as the port is another only within this node.
const SET_PORT: Expression = Write { base: Base::Transport, offset: 2, length: 2, checksum: None };

/// The rule that hides the port of a packet which goes to another node. kube-proxy drops what is new to this node for the port of a Service
/// with `externalTrafficPolicy: Local` and no endpoint here, also of connections that another node has.
pub(super) fn hiding_port() -> Vec<Expression> {
    let from_elsewhere = [Meta(InputInterface), Compare(NotEqual, &[0; 4])];
    [IS_NEW.as_slice(), &from_elsewhere, &[Load(NO_PORT), SET_PORT]].concat()
}

impl Set {
    /// Rule matches: "the packet is for a VIP of the set, and its connection has the mark that the set has with it".
    fn is_marked(self, marks: MarkMask) -> Vec<Expression> {
        self.has_mark(&CONNECTION_MARK, marks)
    }

    /// Rule matches: "the packet is for a VIP of the set, and has the mark that the set has with it".
    fn is_led(self, marks: MarkMask) -> Vec<Expression> {
        self.has_mark(&PACKET_MARK, marks)
    }

    fn has_mark(self, mark: &'static Expression, marks: MarkMask) -> Vec<Expression> {
        let word = words(self.family);
        let ours = MaskAt(word, marks.get().to_ne_bytes());
        let marked = [*destination(self.family), From(word, mark), ours, In(self.name())];
        [is_of(self.family).as_slice(), &marked].concat()
    }

    /// The rules for packets that go to another node, after kube-proxy's filters: each gets the port back that [`hiding_port`] took.
    pub(super) fn led_elsewhere(self, marks: MarkMask) -> [Vec<Expression>; 2] {
        let has_no_port = [PORT, Compare(Equal, NO_PORT), OriginalPort, SET_PORT];
        let is_led = self.is_led(marks);
        [
            [is_led.as_slice(), &IS_NEW, &has_no_port].concat(),
            [is_led.as_slice(), &[Verdict(Accept)]].concat(),
        ]
    }

    /// The rule that sends packets of connections with the mark of the set to where they were sent before.
    pub(super) fn as_before(self, marks: MarkMask) -> Vec<Expression> {
        [self.is_marked(marks), vec![Verdict(Goto(LEAD))]].concat()
    }

    /// The chain with the rules [`Self::taking`].
    pub(super) fn take(self) -> &'static str {
        match self.family {
            Family::V4 => "take4",
            Family::V6 => "take6",
        }
    }

    /// The end of a rule about a VIP for which the set has a mark: no mark is 0.
    fn then_take(self) -> Vec<Expression> {
        vec![Compare(NotEqual, &[0; 4]), Verdict(Goto(self.take()))]
    }

    /// The rules that take a connection for the previous Active's, by the mark that the set has for the VIP.
    pub(super) fn taking(self, marks: MarkMask) -> Vec<Vec<Expression>> {
        let mut rules = marks::to_connection(marks.get(), &self.has_destination());
        rules.push(vec![Verdict(Goto(LEAD))]);
        rules
    }

    /// Rule matches up to and including the destination: "of a TCP connection that did not begin here".
    pub(super) fn has_unknown_connection(self) -> Vec<Expression> {
        let begins_nothing =
            [Meta(Protocol), Compare(Equal, TCP), FLAGS, MaskByte(FLAGS_THAT_MATTER), Compare(NotEqual, SYN)];
        // What kube-proxy has translated goes on here, even if its answers go another way.
        [begins_nothing.as_slice(), &IS_NEW, &IS_UNTRANSLATED, &self.has_destination()].concat()
    }

    /// The rule that takes connections of which only the end can be new here for the previous Active's.
    pub(super) fn to_the_previous(self) -> Vec<Expression> {
        [self.has_unknown_connection(), self.then_take()].concat()
    }

    /// The rule that sends answers to a VIP that has been put in the place of a client by the previous Active there: it translates them
    /// back. This node only forwarded the connection, to a backend of its own.
    pub(super) fn answers_to_the_previous(self) -> Vec<Expression> {
        [IS_ANSWER.as_slice(), &IS_UNTRANSLATED, &self.has_destination(), &self.then_take()].concat()
    }

    /// The rule that leaves such connections to the next Active.
    pub(super) fn to_the_next(self) -> Vec<Expression> {
        [self.has_unknown_connection().as_slice(), &[Verdict(Drop)]].concat()
    }

    /// The rule that records packets to this set's addresses that do not fit what the kernel knows of a connection between the same
    /// ends.
    pub(super) fn noting_strays(self) -> Vec<Expression> {
        let invalid = [
            Meta(Protocol),
            Compare(Equal, TCP),
            Connection(State),
            Mask(INVALID),
            Compare(NotEqual, &[0; 4]),
        ];
        let strays = Self { kind: Kind::Strays, ..self };
        let address = words(self.family);
        let end = address.saturating_add(1);
        let ends = [
            *source(self.family),
            From(address, &SOURCE_PORT),
            From(end, destination(self.family)),
            From(end.saturating_add(address), &PORT),
        ];
        [invalid.as_slice(), &self.has_destination(), &ends, &[AddTo(strays.name())]].concat()
    }

    /// The rule that keeps kube-proxy from translating what is marked.
    pub(super) fn untranslated(self, marks: MarkMask) -> Vec<Expression> {
        [self.is_marked(marks), vec![TranslateTo(number(self.family))]].concat()
    }

    /// The rule that keeps the node from sending redirects about the set's addresses.
    pub(super) fn not_redirected(self) -> Vec<Expression> {
        let (redirect, length) = match self.family {
            Family::V4 => (of_type(ICMP, REDIRECT), 4),
            Family::V6 => (of_type(ICMPV6, REDIRECT_V6), 16),
        };
        let about = Payload { base: Base::Transport, offset: REDIRECTED, length };
        [redirect.as_slice(), &[about, In(self.name()), Counter, Verdict(Drop)]].concat()
    }
}
