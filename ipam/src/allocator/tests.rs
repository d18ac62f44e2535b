//! The scenarios of an allocator: each test that has a number in its name is that one of the catalogue
//! (docs/dev/allocation.md lists them).

mod families;
mod limits;
mod pools;
mod properties;
mod quarantine;
mod sharing;
mod single;
mod targeting;

use std::collections::BTreeSet;

use super::*;
use crate::{Families, Port, Protocol, Selector, Sharing, TrafficPolicy};

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

/// A pool that keeps nothing back.
fn pool(name: &str, ranges: &[&str]) -> Pool {
    let policy = Policy { quarantine: Duration::ZERO, ..Policy::default() };
    Pool::new(name, ranges.iter().map(|range| range.parse().expect(range))).with_policy(policy)
}

/// A pool with a policy that differs from that of [`pool`].
fn pool_with(name: &str, ranges: &[&str], change: impl FnOnce(&mut Policy)) -> Pool {
    let mut pool = pool(name, ranges);
    change(&mut pool.policy);
    pool
}

/// A Service in namespace `ns` that asks for one IPv4 address.
fn v4() -> Request {
    Request::any(Families::Single(Family::V4), "ns")
}

fn v6() -> Request {
    Request::any(Families::Single(Family::V6), "ns")
}

fn prefer() -> Request {
    Request::any(Families::Prefer(Family::ALL), "ns")
}

fn require() -> Request {
    Request::any(Families::Require(Family::ALL), "ns")
}

/// Requests as sentences.
trait RequestExt {
    fn named(self, addresses: &[&str]) -> Request;
    fn shown(self, addresses: &[&str]) -> Request;
    fn from(self, pool: &str) -> Request;
    fn of(self, namespace: &str) -> Request;
    fn labelled(self, key: &str, value: &str) -> Request;
    fn times(self, count: u8) -> Request;
    fn shared(self, key: &str, ports: &[&str]) -> Request;
    fn local(self, selector: &str) -> Request;
}

impl RequestExt for Request {
    fn named(self, addresses: &[&str]) -> Request {
        Self { addresses: addresses.iter().map(|text| ip(text)).collect(), ..self }
    }

    fn shown(self, addresses: &[&str]) -> Request {
        Self { preferred: addresses.iter().map(|text| ip(text)).collect(), ..self }
    }

    fn from(self, pool: &str) -> Request {
        Self { pool: Some(pool.into()), ..self }
    }

    fn of(mut self, namespace: &str) -> Request {
        self.requester.namespace = namespace.into();
        self.terms.namespace = namespace.into();
        self
    }

    fn labelled(mut self, key: &str, value: &str) -> Request {
        self.requester.labels.insert(key.into(), value.into());
        self
    }

    fn times(self, count: u8) -> Request {
        Self { count, ..self }
    }

    fn shared(mut self, key: &str, ports: &[&str]) -> Request {
        self.terms.sharing = Some(Sharing { key: key.into(), with: BTreeSet::new() });
        self.terms.ports = ports.iter().map(|text| port(text)).collect();
        self
    }

    fn local(mut self, selector: &str) -> Request {
        self.terms.traffic = TrafficPolicy::Local { selector: selector.into() };
        self
    }
}

/// `tcp/80`.
fn port(text: &str) -> Port {
    let (protocol, number) = text.split_once('/').expect(text);
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        other => panic!("{other}"),
    };
    Port { protocol, number: number.parse().expect(text) }
}

fn labels(key: &str, value: &str) -> Selector {
    Selector { labels: [(key.into(), value.into())].into(), requirements: Vec::new() }
}

/// An allocator and those who ask it, as a controller would: what a plan leaves is released, and what cannot be kept.
struct Fixture {
    allocator: Allocator<&'static str>,
    now: Moment,
}

impl Fixture {
    fn new(pools: impl IntoIterator<Item = Pool>) -> Self {
        Self { allocator: Allocator::new(pools), now: Moment(1_000_000) }
    }

    /// What `owner` holds afterwards, or the message of the refusal.
    #[expect(clippy::needless_pass_by_value, reason = "requests are written where they are made")]
    fn give(&mut self, owner: &'static str, request: Request) -> Result<String, String> {
        let before = self.allocator.clone();
        let planned = self.allocator.plan(&owner, &request);
        assert_eq!(self.allocator, before, "a plan changes nothing");
        assert_eq!(self.allocator.plan(&owner, &request), planned, "one state, one answer");
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => {
                for lost in self.allocator.sharing_conflicts(&owner, &request.terms) {
                    self.allocator.release(lost.address, &owner, self.now);
                }
                return Err(error.to_string());
            }
        };
        let prepared = self.allocator.prepare(&owner, &request).expect("planned");
        assert_eq!(prepared.plan(), &plan);
        assert_eq!(prepared.commit(), plan);
        for left in &plan.to_release {
            self.allocator.release(*left, &owner, self.now);
        }
        Ok(list(plan.addresses.iter().map(|planned| planned.address)))
    }

    /// As [`Self::give`]: the addresses, or `-`.
    fn given(&mut self, owner: &'static str, request: Request) -> String {
        self.give(owner, request).unwrap_or_else(|_| "-".to_owned())
    }

    fn refused(&mut self, owner: &'static str, request: Request) -> String {
        self.give(owner, request).expect_err("this must be refused")
    }

    fn release(&mut self, owner: &'static str) {
        for address in self.allocator.held_by(&owner).collect::<Vec<_>>() {
            self.allocator.release(address, &owner, self.now);
        }
    }

    fn held(&self, owner: &'static str) -> String {
        list(self.allocator.held_by(&owner))
    }
}

fn list(addresses: impl IntoIterator<Item = IpAddr>) -> String {
    addresses.into_iter().map(|address| address.to_string()).collect::<Vec<_>>().join(" ")
}
