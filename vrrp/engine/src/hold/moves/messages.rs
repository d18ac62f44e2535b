//! The netlink messages that lead marked packets to a node.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use windlass_vrrp::Family;

use super::plan::NextHop;
use crate::options::MarkMask;

/// The routing tables of an engine are 256 times its tag and the number of the mark.
const TABLES_PER_TAG: u32 = 256;

/// What is the same for all of an engine's rules and routes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    /// Who made them (FRA_PROTOCOL, rtm_protocol), priority of the rules, and part of the tables' numbers.
    pub(super) tag: u8,
    pub(super) marks: MarkMask,
}

impl Owner {
    /// Leads packets with the mark of this number to this node.
    pub(super) fn lead(self, hop: NextHop, number: u32) -> [(RouteNetlinkMessage, u16); 2] {
        let route = RouteNetlinkMessage::NewRoute(self.route(Family::of(hop.address), number, Some(hop)));
        let rule = RouteNetlinkMessage::NewRule(self.rule(Family::of(hop.address), number));
        [(route, NLM_F_CREATE | NLM_F_REPLACE), (rule, NLM_F_CREATE | NLM_F_EXCL)]
    }

    /// Leads them nowhere any more.
    pub(super) fn release(self, family: Family, number: u32) -> [(RouteNetlinkMessage, u16); 2] {
        let rule = RouteNetlinkMessage::DelRule(self.rule(family, number));
        let route = RouteNetlinkMessage::DelRoute(self.route(family, number, None));
        [(rule, 0), (route, 0)]
    }

    /// Of all rules those that an earlier engine of this tag left, as family and message to delete it with its number.
    pub(super) fn left_behind(self, rule: &RuleMessage) -> Option<(RouteNetlinkMessage, Family, u32)> {
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

    fn first_table(self) -> u32 {
        u32::from(self.tag) * TABLES_PER_TAG
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

fn family_of(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}
