//! The netlink messages that lead marked packets to a node. Pure.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage, RulePortRange};
use netlink_packet_route::{AddressFamily, IpProtocol, RouteNetlinkMessage};
use windlass_kernel::mark_mask::MarkMask;
use windlass_kernel::port::ProtocolPort;
use windlass_vrrp::Family;

#[cfg(test)]
mod tests;

/// A node on a LAN.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NextHop {
    /// Index of the interface by which it is reached.
    pub interface: u32,
    /// Address to which it answers ARP or neighbour solicitations.
    pub address: IpAddr,
}

/// Source of packets that are led: an address, and a port of it if the kernel routes marked packets by ports.
pub type Source = (IpAddr, Option<ProtocolPort>);

/// Returns true if a kernel of this release (`uname -r`) looks at the ports of a packet that it routes again because of its mark.
pub fn routes_marked_by_port(release: &str) -> bool {
    const FIRST: (u32, u32) = (5, 13);
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    numbers.next().zip(numbers.next()).is_some_and(|release| release >= FIRST)
}

/// The routing tables of an engine are 256 times its tag and the number of the mark.
const TABLES_PER_TAG: u32 = 256;

/// What is the same for all of an engine's rules and routes.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// Who made them (FRA_PROTOCOL, rtm_protocol), priority of the rules, and part of the tables' numbers.
    pub tag: u8,
    /// Bits of packet marks that hold the number.
    pub marks: MarkMask,
}

impl Owner {
    /// Leads packets to these addresses with the mark of this number to this node. Others that have such a mark, as other programs give
    /// packets, find no route in the number's table, and go on by the rules that follow.
    pub fn lead_to(
        self,
        hop: NextHop,
        number: u32,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Vec<(RouteNetlinkMessage, u16)> {
        let family = Family::of(hop.address);
        let rule = RouteNetlinkMessage::NewRule(self.rule(family, number));
        let routes = addresses.into_iter().map(|address| {
            let route = to(self.route(family, number, Some(hop)), address);
            (RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_REPLACE)
        });
        // The rule last: what it leads to is there.
        routes.chain([(rule, NLM_F_CREATE | NLM_F_EXCL)]).collect()
    }

    /// Leads packets to these addresses nowhere any more.
    pub fn release_to(
        self,
        family: Family,
        number: u32,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> impl Iterator<Item = (RouteNetlinkMessage, u16)> {
        let route = move |address| to(self.route(family, number, None), address);
        addresses.into_iter().map(move |address| (RouteNetlinkMessage::DelRoute(route(address)), 0))
    }

    /// Leads packets with the mark of this number and one of these sources to this node, but for those to these addresses: they go on by the
    /// rules that follow. So do packets of other ports that have such a mark, as other programs give packets.
    pub fn lead_from(
        self,
        hop: NextHop,
        number: u32,
        sources: impl IntoIterator<Item = Source>,
        but_to: impl IntoIterator<Item = IpAddr>,
    ) -> Vec<(RouteNetlinkMessage, u16)> {
        let family = Family::of(hop.address);
        let add = NLM_F_CREATE | NLM_F_EXCL;
        let but = but_to.into_iter().map(|address| self.but_to(family, number, address));
        let mut orders: Vec<_> = but.map(|route| (RouteNetlinkMessage::NewRoute(route), add)).collect();
        let route = RouteNetlinkMessage::NewRoute(self.route(family, number, Some(hop)));
        orders.push((route, NLM_F_CREATE | NLM_F_REPLACE));
        let rules = sources.into_iter().map(|source| self.rule_from(family, number, source));
        orders.extend(rules.map(|rule| (RouteNetlinkMessage::NewRule(rule), add)));
        orders
    }

    /// Leads packets to these addresses like others.
    pub fn release_but_to(
        self,
        family: Family,
        number: u32,
        but_to: impl IntoIterator<Item = IpAddr>,
    ) -> Vec<(RouteNetlinkMessage, u16)> {
        let but = but_to.into_iter().map(|address| self.but_to(family, number, address));
        but.map(|route| (RouteNetlinkMessage::DelRoute(route), 0)).collect()
    }

    /// Has neither the rule without a source nor the default route of the number any more.
    pub fn release(self, family: Family, number: u32) -> [(RouteNetlinkMessage, u16); 2] {
        let rule = RouteNetlinkMessage::DelRule(self.rule(family, number));
        let route = RouteNetlinkMessage::DelRoute(self.route(family, number, None));
        [(rule, 0), (route, 0)]
    }

    /// Of all rules those that an earlier engine of this tag left, as family and message to delete it with its number.
    pub fn left_behind(self, rule: &RuleMessage) -> Option<(RouteNetlinkMessage, Family, u32)> {
        let family = match rule.header.family {
            AddressFamily::Inet => Family::V4,
            AddressFamily::Inet6 => Family::V6,
            _ => return None,
        };
        let protocol = RouteProtocol::from(self.tag);
        let is_ours = rule.attributes.contains(&RuleAttribute::Protocol(protocol));
        let table = rule.attributes.iter().find_map(|attribute| match attribute {
            RuleAttribute::Table(table) => Some(*table),
            _ => None,
        });
        let number = table?.checked_sub(self.first_table()).filter(|number| *number < TABLES_PER_TAG)?;
        is_ours.then(|| (RouteNetlinkMessage::DelRule(rule.clone()), family, number))
    }

    /// Whether the kernel's rule is that of [`Self::lead_from`].
    pub fn is_rule_from(self, rule: &RuleMessage, family: Family, number: u32, source: Source) -> bool {
        let ours = self.rule_from(family, number, source);
        let has = |attribute| rule.attributes.contains(attribute);
        let by_port = |rule: &RuleMessage| {
            rule.attributes.iter().any(|attribute| matches!(attribute, RuleAttribute::SourcePortRange(_)))
        };
        rule.header.src_len == ours.header.src_len
            && by_port(rule) == by_port(&ours)
            && ours.attributes.iter().all(has)
    }

    fn first_table(self) -> u32 {
        u32::from(self.tag) * TABLES_PER_TAG
    }

    /// The rule that has only packets with this source.
    fn rule_from(self, family: Family, number: u32, (address, port): Source) -> RuleMessage {
        let mut rule = self.rule(family, number);
        rule.header.src_len = if address.is_ipv4() { 32 } else { 128 };
        rule.attributes.push(RuleAttribute::Source(address));
        if let Some(ProtocolPort { protocol, port }) = port {
            rule.attributes.push(RuleAttribute::IpProtocol(IpProtocol::from(protocol.number())));
            rule.attributes.push(RuleAttribute::SourcePortRange(RulePortRange { start: port, end: port }));
        }
        rule
    }

    /// The route of the number's table that leaves packets to this address to other tables.
    fn but_to(self, family: Family, number: u32, address: IpAddr) -> RouteMessage {
        let mut message = self.route(family, number, None);
        message.header.kind = RouteType::Throw;
        to(message, address)
    }

    /// Of all routes those of this tag's tables, as the message to delete it.
    pub fn left_behind_route(self, route: &RouteMessage) -> Option<RouteNetlinkMessage> {
        let table = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        });
        let is_ours = route.header.protocol == RouteProtocol::from(self.tag)
            && table?.checked_sub(self.first_table()).is_some_and(|number| number < TABLES_PER_TAG);
        is_ours.then(|| RouteNetlinkMessage::DelRoute(route.clone()))
    }

    fn rule(self, family: Family, number: u32) -> RuleMessage {
        let mut message = RuleMessage::default();
        message.header.family = family_of(family);
        message.header.action = RuleAction::ToTable;
        message.attributes = vec![
            RuleAttribute::Priority(u32::from(self.tag)),
            RuleAttribute::FwMark(self.marks.mark(number)),
            RuleAttribute::FwMask(self.marks.get()),
            RuleAttribute::Table(self.first_table() + number),
            RuleAttribute::Protocol(RouteProtocol::from(self.tag)),
        ];
        message
    }

    /// The default route of the number's table; without a node for deleting it, whatever node it leads to.
    fn route(self, family: Family, number: u32, hop: Option<NextHop>) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(family);
        message.header.protocol = RouteProtocol::from(self.tag);
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes.push(RouteAttribute::Table(self.first_table() + number));
        if let Some(NextHop { interface, address }) = hop {
            // Whatever the node's own routes say: the peer was heard on this LAN.
            message.header.flags = RouteFlags::Onlink;
            let gateway = match address {
                IpAddr::V4(address) => RouteAddress::Inet(address),
                IpAddr::V6(address) => RouteAddress::Inet6(address),
            };
            message.attributes.push(RouteAttribute::Gateway(gateway));
            message.attributes.push(RouteAttribute::Oif(interface));
        }
        message
    }
}

/// The same route, to this address alone.
fn to(mut route: RouteMessage, address: IpAddr) -> RouteMessage {
    let (length, destination) = match address {
        IpAddr::V4(address) => (32, RouteAddress::Inet(address)),
        IpAddr::V6(address) => (128, RouteAddress::Inet6(address)),
    };
    route.header.destination_prefix_length = length;
    route.attributes.push(RouteAttribute::Destination(destination));
    route
}

fn family_of(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}
