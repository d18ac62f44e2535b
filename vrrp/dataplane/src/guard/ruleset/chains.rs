//! The chains. Each packet that the node forwards passes [`FRONT`] and `forward`; what is not about a VIP leaves both after a look-up. Pure.

use windlass_kernel::netfilter::chain::{Chain, FORWARD, Hook, INPUT, OUTPUT, POSTROUTING, PREROUTING};
use windlass_kernel::netfilter::expression::{
    Answer::{PortUnreachable, TcpReset},
    Comparison::{Equal, NotEqual},
    Connection::State,
    Expression::{self, Compare, Connection, Counter, Mask, Meta, Reject, Verdict},
    Meta::Protocol,
    Verdict::{Accept, Drop, Goto},
};
use windlass_kernel::netfilter::marks::{self, LEAD};
use windlass_kernel::netfilter::packet::is_of;
use windlass_vrrp::Family;

use super::super::set::{Kind, Set};
use super::ended::{self, IS_ANSWER};
use super::handed_over::hiding_port;
use super::passed_on;
use super::{
    AFTER_CONNECTION_TRACKING, AFTER_KUBE_PROXY_FILTER, AFTER_KUBE_PROXY_NAT, BEFORE_KUBE_PROXY_NAT,
    BEFORE_MASQUERADING, ECHO_REQUEST, ECHO_REQUEST_V6, GOES_ON, ICMP, ICMPV6, INVALID, Parts, TCP,
    asking_from_its_source, neighbour_discovery, of_type,
};

type Rules = Vec<Vec<Expression>>;

/// The chain that sorts out what arrives for a VIP or belongs to a connection to one.
pub(super) const FRONT: &str = "front";
/// The same for the node's own packets.
const OWN: &str = "own";

/// Chains that are there for each family.
#[derive(Clone, Copy)]
enum OfFamily {
    /// The rules of [`FRONT`] and [`OWN`].
    Front,
    Own,
    /// Rules about packets that these sort out, most of which need a look at their port only.
    About,
    /// All rules about a packet that arrived, and about one of the node's own.
    Judge,
    JudgeOwn,
}

impl OfFamily {
    fn name(self, family: Family) -> &'static str {
        let [v4, v6] = match self {
            Self::Front => ["front4", "front6"],
            Self::Own => ["own4", "own6"],
            Self::About => ["about4", "about6"],
            Self::Judge => ["judge4", "judge6"],
            Self::JudgeOwn => ["judge-own4", "judge-own6"],
        };
        match family {
            Family::V4 => v4,
            Family::V6 => v6,
        }
    }

    fn chain(self, family: Family, rules: Rules) -> Chain {
        chain(self.name(family), rules)
    }
}

fn chain(name: &'static str, rules: Rules) -> Chain {
    Chain { name, hook: None, rules }
}

/// All chains of the table.
pub(super) fn chains(with: Parts) -> Vec<Chain> {
    let mut chains = common(with);
    chains.extend([Family::V4, Family::V6].into_iter().flat_map(|family| of_family(family, with)));
    chains.extend(with_hooks(with));
    chains
}

/// The chains that others end in.
fn common(with: Parts) -> Vec<Chain> {
    let refuse = vec![
        neighbour_discovery(Drop),
        // Of a connection that goes on, but out of place: a reset would end it.
        vec![Connection(State), Mask(INVALID), Compare(NotEqual, &[0; 4]), Counter, Verdict(Drop)],
        vec![Meta(Protocol), Compare(Equal, TCP), Counter, Reject(TcpReset)],
        vec![Counter, Reject(PortUnreachable)],
    ];
    let arrived = vec![
        [of_type(ICMP, ECHO_REQUEST).as_slice(), &[Verdict(Accept)]].concat(),
        [of_type(ICMPV6, ECHO_REQUEST_V6).as_slice(), &[Verdict(Accept)]].concat(),
        neighbour_discovery(Accept),
        vec![Verdict(Goto("refuse"))],
    ];
    let untaken =
        vec![vec![Meta(Protocol), Compare(Equal, TCP), Verdict(Accept)], vec![Verdict(Goto("arrived"))]];
    let mut chains = vec![
        chain("refuse", refuse),
        chain("arrived", arrived),
        chain("untaken", untaken),
        chain(ended::OVER, ended::over()),
    ];
    if with.forwards {
        let marked = marks::to_packet(with.marks.get());
        // No further rule: each would judge the packet by a port that it does not have.
        let led = [
            passed_on::with_few_hops(),
            vec![hiding_port(), vec![Counter]],
            marked,
            vec![vec![Verdict(Accept)]],
        ];
        chains.push(chain(LEAD, led.concat()));
        chains.extend(Kind::Window.sets().map(|set| chain(set.take(), set.taking(with.marks))));
    }
    chains
}

/// The chains about packets of this family.
fn of_family(family: Family, with: Parts) -> Vec<Chain> {
    let set = |kind| Set { kind, family };
    let goto = |chain: OfFamily| Verdict(Goto(chain.name(family)));
    let front = |to_vip, of_connection| {
        let [packet, connection] = set(Kind::Known).is_of_packet_or_of_translated_connection();
        vec![[packet, vec![goto(to_vip)]].concat(), [connection, vec![goto(of_connection)]].concat()]
    };
    let events = if with.masks_events { set(Kind::Replicated).telling_little() } else { Vec::new() };
    let quick = vec![
        set(Kind::Open).translated(),
        set(Kind::Ended).over(),
        set(Kind::Ports).translated_from_sources(),
        vec![goto(OfFamily::Judge)],
    ];
    let (vips, held, marks) = (set(Kind::Vips), set(Kind::Held), with.marks);
    let answered = vec![set(Kind::Moved).as_before(marks), set(Kind::Window).answers_to_the_previous()];
    let unknown =
        vec![set(Kind::Window).to_the_previous(), set(Kind::Left).to_the_next(), vips.noting_strays()];
    let forwarding = |rules: &Rules| if with.forwards { rules.clone() } else { Vec::new() };
    let (passing, passed) = if with.forwards && with.shares {
        (passed_on::unknown(family), passed_on::chains(family, marks))
    } else {
        (Vec::new(), Vec::new())
    };
    let claims = claims(family);
    let judge = [
        forwarding(&answered),
        passing,
        forwarding(&unknown),
        claims.clone(),
        vec![vips.untranslated_to("arrived")],
    ];
    let ended = vec![set(Kind::Ended).over()];
    let judge_own = [forwarding(&answered), ended, claims, vec![held.untranslated_to("refuse")]];
    let redirects = if with.forwards { vec![vips.not_redirected()] } else { Vec::new() };
    let mut chains = passed;
    chains.extend([
        OfFamily::Front.chain(family, front(OfFamily::About, OfFamily::About)),
        OfFamily::Own.chain(family, [redirects, front(OfFamily::JudgeOwn, OfFamily::About)].concat()),
        OfFamily::About.chain(family, [events, quick].concat()),
        OfFamily::Judge.chain(family, judge.concat()),
        OfFamily::JudgeOwn.chain(family, judge_own.concat()),
    ]);
    chains
}

/// The rules about who has a claim to a VIP, its ports, and to send to them. Backends answer to a VIP that has been put in the place of the
/// client: such an answer passes.
fn claims(family: Family) -> Rules {
    let set = |kind| Set { kind, family };
    vec![
        set(Kind::Restricted).no_answers_to_others(),
        set(Kind::Owned).no_answers_of_other_ports(),
        [IS_ANSWER.as_slice(), &[Verdict(Accept)]].concat(),
        set(Kind::Restricted).no_more_from_others(),
        set(Kind::Restricted).only_from_sources(),
        set(Kind::Owned).only_own_ports(),
    ]
}

/// The chains with a hook: as few as possible, each costs every packet.
fn with_hooks(with: Parts) -> Vec<Chain> {
    let base = |name, kind, number, priority, rules: Vec<Rules>| {
        let hook = Some(Hook { kind, number, priority });
        Chain { name, hook, rules: rules.concat() }
    };
    let both = |kind: Kind, rule: fn(Set) -> Vec<Expression>| kind.sets().map(rule).to_vec();
    let to = |kind: Kind, chain| kind.sets().map(|set| set.to_any(Goto(chain))).to_vec();
    let by_family = |chain: OfFamily| {
        let [v4, v6] = [Family::V4, Family::V6].map(|family| Verdict(Goto(chain.name(family))));
        vec![[is_of(Family::V6).as_slice(), &[v6]].concat(), vec![v4]]
    };
    let goes_on =
        vec![[Connection(State), Mask(GOES_ON), Compare(NotEqual, &[0; 4]), Verdict(Accept)].to_vec()];
    let forwarding = |rules: Rules| if with.forwards { rules } else { Vec::new() };
    // The previous Active judges its own connections: among them are answers of backends, to ports that are no Service's.
    let elsewhere = forwarding(Kind::Moved.sets().map(|set| set.led_elsewhere(with.marks)).concat());
    let unchanged = forwarding(Kind::Moved.sets().map(|set| set.untranslated(with.marks)).into());
    let masqueraded = Kind::Movable.sets().map(|set| set.with_vip_as_source(with.masquerade_mark)).to_vec();
    // The node's packets are routed again where their mark has changed.
    let own = if with.forwards { "route" } else { "filter" };
    let mut chains = vec![
        base(FRONT, "filter", PREROUTING, AFTER_CONNECTION_TRACKING, vec![by_family(OfFamily::Front)]),
        base(OWN, own, OUTPUT, AFTER_CONNECTION_TRACKING, vec![by_family(OfFamily::Own)]),
        base(
            "before-nat",
            "nat",
            PREROUTING,
            BEFORE_KUBE_PROXY_NAT,
            vec![both(Kind::Vips, Set::echo), unchanged],
        ),
        base("before-nat-own", "nat", OUTPUT, BEFORE_KUBE_PROXY_NAT, vec![both(Kind::Held, Set::echo)]),
        base("after-nat", "nat", PREROUTING, AFTER_KUBE_PROXY_NAT, vec![to(Kind::Vips, "untaken")]),
        base(
            "input",
            "filter",
            INPUT,
            AFTER_KUBE_PROXY_FILTER,
            vec![goes_on.clone(), to(Kind::Vips, "arrived")],
        ),
        base(
            "forward",
            "filter",
            FORWARD,
            AFTER_KUBE_PROXY_FILTER,
            vec![goes_on.clone(), elsewhere, both(Kind::Vips, Set::answers), to(Kind::Vips, "refuse")],
        ),
        base(
            "output",
            "filter",
            OUTPUT,
            AFTER_KUBE_PROXY_FILTER,
            vec![goes_on, both(Kind::Held, Set::answers), to(Kind::Held, "refuse")],
        ),
    ];
    if with.forwards {
        let rules = vec![asking_from_its_source(), masqueraded];
        chains.push(base("movable", "nat", POSTROUTING, BEFORE_MASQUERADING, rules));
    }
    chains
}
