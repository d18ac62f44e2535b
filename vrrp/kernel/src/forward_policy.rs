//! Chains of the packet filter that drop every packet that the host forwards.
//!
//! Docker, firewalld and admins set the policy of the forward chain to drop, and kube-proxy and the CNI plugin add rules that accept
//! what they need. A chain is certain to drop everything only if none of its rules can accept a packet: neither itself nor by a chain or
//! a program that it calls. The kernel evaluates every base chain of the hook, so one such chain is enough.

use std::io;

use windlass_vrrp::Family;

use crate::netfilter::NetfilterSocket;
use crate::netfilter::attributes::{self, Attributes};
use crate::netfilter::chain;
use crate::netfilter::message::Operation;

/// Families of nf_tables as the kernel numbers them, with the families of the packets that their chains see.
const INET: u8 = 1;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// Chains that are looked up, by their usual names: a list of all chains is long where kube-proxy runs in iptables mode.
const USUAL: [DroppingChain; 4] = [
    DroppingChain { family: IPV4, table: "filter", chain: "FORWARD" },
    DroppingChain { family: IPV6, table: "filter", chain: "FORWARD" },
    DroppingChain { family: INET, table: "filter", chain: "forward" },
    DroppingChain { family: INET, table: "filter", chain: "FORWARD" },
];
const POLICY_DROP: u32 = 0;
const VERDICT_DROP: u32 = 0;
/// Expressions that match, count or log, or end a packet, and accept none.
const HARMLESS: [&str; 17] = [
    "bitwise",
    "byteorder",
    "cmp",
    "connlimit",
    "counter",
    "ct",
    "exthdr",
    "fib",
    "last",
    "limit",
    "log",
    "match",
    "meta",
    "payload",
    "quota",
    "range",
    "reject",
];

/// A chain of the hook `forward` with the policy drop, none of whose rules can accept a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppingChain {
    family: u8,
    table: &'static str,
    chain: &'static str,
}

impl DroppingChain {
    /// Returns true if packets of this family pass the chain.
    pub fn sees(self, family: Family) -> bool {
        self.family == INET || self.family == if family == Family::V4 { IPV4 } else { IPV6 }
    }

    /// The chain as `nft` names it, for example `ip filter FORWARD`.
    pub fn name(self) -> String {
        let family = match self.family {
            IPV4 => "ip",
            IPV6 => "ip6",
            _ => "inet",
        };
        format!("{family} {} {}", self.table, self.chain)
    }

    /// Asks the kernel.
    fn drops_all(self, socket: &mut NetfilterSocket) -> io::Result<bool> {
        let named = Attributes::new().text(1, self.table);
        let chain = match socket.ask(Operation::GetChain(self.family), &named.clone().text(3, self.chain)) {
            Ok(chains) => chains,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(false),
            Err(error) => return Err(error),
        };
        if !chain.iter().any(|chain| drops_by_policy(chain)) {
            return Ok(false);
        }
        let rules = socket.ask(Operation::GetRulesOf(self.family), &named.text(2, self.chain))?;
        let rules =
            rules.iter().filter(|rule| attributes::find(rule, 2).is_some_and(|it| text(it) == self.chain));
        Ok(!rules.into_iter().any(|rule| may_accept(rule)))
    }
}

/// Returns the usual forward chains of the calling thread's network namespace that drop every packet.
///
/// # Errors
/// nf_tables does not answer, or the rules changed while they were read.
pub fn chains_that_drop_all() -> io::Result<Vec<DroppingChain>> {
    let mut socket = NetfilterSocket::open()?;
    let mut found = Vec::new();
    for chain in USUAL {
        if chain.drops_all(&mut socket)? {
            found.push(chain);
        }
    }
    Ok(found)
}

/// Returns true for a base chain of the hook `forward` with the policy drop.
fn drops_by_policy(chain: &[u8]) -> bool {
    let hook = attributes::find(chain, 4).and_then(|hook| attributes::find_number(hook, 1));
    hook == Some(chain::FORWARD) && attributes::find_number(chain, 5) == Some(POLICY_DROP)
}

/// Returns true unless each expression of the rule is known to accept nothing.
fn may_accept(rule: &[u8]) -> bool {
    let expressions = attributes::read(attributes::find(rule, 4).unwrap_or_default());
    expressions.into_iter().any(|(_, expression)| {
        let name = attributes::find(expression, 1).map(text).unwrap_or_default();
        let data = attributes::find(expression, 2).unwrap_or_default();
        match name {
            "immediate" => {
                let verdict = attributes::find(data, 2)
                    .and_then(|value| attributes::find(value, 2))
                    .and_then(|verdict| attributes::find_number(verdict, 1));
                verdict.is_some_and(|verdict| verdict != VERDICT_DROP)
            }
            name => !HARMLESS.contains(&name),
        }
    })
}

/// A text as the kernel sends it: it ends with a zero.
fn text(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.get(..end).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::lab::in_namespace;

    /// The chains that drop all of what the host forwards where these are the rules.
    fn dropping(rules: &str) -> Vec<String> {
        let rules = format!("flush ruleset; {rules}");
        let done = Command::new("nft").arg(&rules).status().expect("run `nft`");
        assert!(done.success(), "{rules}");
        chains_that_drop_all().unwrap().into_iter().map(DroppingChain::name).collect()
    }

    // shows: field-reports F-79
    #[test]
    fn a_forward_chain_drops_all_only_if_none_of_its_rules_can_accept() {
        in_namespace(|| {
            let chain = |family: &str, name: &str, policy: &str, rules: &str| {
                format!(
                    "table {family} filter {{ chain other {{ accept; }}; chain {name} {{ type filter hook forward priority 0; policy \
                     {policy}; {rules}\n }}; }}"
                )
            };
            let drop = |rules: &str| chain("ip", "FORWARD", "drop", rules);
            let (ip, none): (&[&str], &[&str]) = (&["ip filter FORWARD"], &[]);
            let rows = [
                (String::new(), none),
                (drop(""), ip),
                (drop("counter log"), ip),
                (drop("ip saddr 192.0.2.0/24 counter drop"), ip),
                (drop("ct state invalid reject"), ip),
                (drop("ct state established accept"), none),
                (drop("iifname lo jump other"), none),
                (drop("ip daddr vmap { 192.0.2.1 : accept }"), none),
                (chain("ip", "FORWARD", "accept", "drop"), none),
                (chain("ip6", "FORWARD", "drop", ""), &["ip6 filter FORWARD"]),
                (chain("inet", "forward", "drop", ""), &["inet filter forward"]),
                (chain("inet", "own", "drop", ""), none),
            ];
            for (rules, expected) in rows {
                assert_eq!(dropping(&rules), expected, "{rules}");
            }
            let [v4, v6, inet, _] = USUAL;
            let sees = [v4, v6, inet].map(|one| [Family::V4, Family::V6].map(|family| one.sees(family)));
            assert_eq!(sees, [[true, false], [false, true], [true, true]]);
        });
    }
}
