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

/// Properties that all of an engine's rules and routes share.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// Origin of the rules and routes (FRA_PROTOCOL, rtm_protocol), priority of the rules, and part of the tables' numbers.
    pub tag: u8,
    /// Bits of packet marks that hold the number.
    pub marks: MarkMask,
}

impl Owner {
    /// Leads packets to these addresses with the mark of this number to this node. Other packets with such a mark, as from other
    /// programs, find no route in the number's table, and follow the next rules.
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

    /// Removes the routes of packets to these addresses.
    pub fn release_to(
        self,
        family: Family,
        number: u32,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> impl Iterator<Item = (RouteNetlinkMessage, u16)> {
        let route = move |address| to(self.route(family, number, None), address);
        addresses.into_iter().map(move |address| (RouteNetlinkMessage::DelRoute(route(address)), 0))
    }

    /// Leads packets with the mark of this number and one of these sources to this node, but for those to these addresses: they
    /// follow the next rules. So do packets of other ports with such a mark, as from other programs.
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

    /// Removes the exceptions that [`Self::lead_from`] made for these addresses.
    pub fn release_but_to(
        self,
        family: Family,
        number: u32,
        but_to: impl IntoIterator<Item = IpAddr>,
    ) -> Vec<(RouteNetlinkMessage, u16)> {
        let but = but_to.into_iter().map(|address| self.but_to(family, number, address));
        but.map(|route| (RouteNetlinkMessage::DelRoute(route), 0)).collect()
    }

    /// Removes the rule without a source and the default route of the number.
    pub fn release(self, family: Family, number: u32) -> [(RouteNetlinkMessage, u16); 2] {
        let rule = RouteNetlinkMessage::DelRule(self.rule(family, number));
        let route = RouteNetlinkMessage::DelRoute(self.route(family, number, None));
        [(rule, 0), (route, 0)]
    }

    /// Recognises a rule of this tag, as an earlier engine left it. Returns the message to delete it, its family and its number.
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

    /// Returns true if the kernel's rule is that of [`Self::lead_from`] for this source.
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

    /// The rule for packets with this source alone.
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

    /// Recognises a route of this tag's tables. Returns the message to delete it.
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
            RuleAttribute::Table(self.first_table().saturating_add(number)),
            RuleAttribute::Protocol(RouteProtocol::from(self.tag)),
        ];
        message
    }

    /// The default route of the number's table; without `hop` to delete it, whatever node it leads to.
    fn route(self, family: Family, number: u32, hop: Option<NextHop>) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(family);
        message.header.protocol = RouteProtocol::from(self.tag);
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes.push(RouteAttribute::Table(self.first_table().saturating_add(number)));
        if let Some(NextHop { interface, address }) = hop {
            // Regardless of the node's own routes: the peer was seen on this LAN.
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
