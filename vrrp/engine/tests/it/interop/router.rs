//! A running router, whoever made it.

use std::net::IpAddr;

use crate::interop::frr::Frr;
use crate::interop::keepalived::Keepalived;
use crate::interop::setup::{Implementation, Setup};
use crate::interop::windlass;
use crate::lab::{Lan, Node, mac};

enum Program {
    Windlass(Box<Node>),
    Keepalived(Keepalived),
    Frr(Frr),
}

pub(crate) struct Router {
    program: Program,
    /// Source of its adverts.
    pub(crate) source: IpAddr,
    /// The host that answers for the VIP while it is Active.
    pub(crate) answers: [u8; 6],
}

impl Router {
    pub(crate) fn start(lan: &Lan, setup: &Setup) -> Self {
        let host = &lan.hosts[setup.host];
        let program = match setup.implementation {
            Implementation::Windlass => Program::Windlass(Box::new(windlass::start(host, setup))),
            Implementation::Keepalived => Program::Keepalived(Keepalived::start(host, setup)),
            Implementation::Frr => Program::Frr(Frr::start(host, setup)),
        };
        let virtual_mac = setup.implementation == Implementation::Frr || setup.virtual_mac;
        let answers = if virtual_mac { setup.dialect.virtual_mac() } else { mac(host).try_into().unwrap() };
        Self { program, source: setup.source(), answers }
    }

    /// The engine, of a router that is Windlass'.
    pub(crate) fn engine(&self) -> &Node {
        match &self.program {
            Program::Windlass(node) => node,
            Program::Keepalived(_) | Program::Frr(_) => panic!("{} is not Windlass'", self.source),
        }
    }

    /// Kills a foreign router's daemons: what they made of the kernel stays.
    pub(crate) fn sigkill(&mut self) {
        match &mut self.program {
            Program::Windlass(_) => panic!("the engine is part of this process"),
            Program::Keepalived(keepalived) => keepalived.sigkill(),
            Program::Frr(frr) => frr.sigkill(),
        }
    }

    /// Ends it in an orderly way.
    pub(crate) fn stop(&mut self) {
        match &mut self.program {
            Program::Windlass(node) => node.engine.apply(Vec::new()),
            Program::Keepalived(keepalived) => keepalived.stop(),
            Program::Frr(frr) => frr.stop(),
        }
    }
}
