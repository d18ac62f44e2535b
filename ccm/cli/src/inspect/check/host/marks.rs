//! Packet marks and forward chains, as `ip rule` and `nft` show them: which bits other programs use, and which chains drop.
//!
//! Windlass marks packets of connections that it forwards to another node, by default with the bits 0xf0 (`--forwarding-mark-mask`). A
//! program that tests or writes the same bits sends those packets, or its own, another way.

use std::collections::BTreeSet;

use windlass_common::listing::first_of;
use windlass_engine::{AddressTag, MarkMask};

use super::Host;
use super::command::Output;
use crate::inspect::problems::Problem;

#[cfg(test)]
mod tests;

/// Routing tables of an engine: 256 for each tag.
const TABLES_PER_TAG: u32 = 256;
/// kube-proxy's chains that write or test the mark of what it masquerades, in iptables and in nftables mode.
const MARKING_CHAINS: [&str; 2] = ["KUBE-MARK-MASQ", "masquerading"];

/// A user of bits of packet marks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::inspect::check) struct MarkUser {
    /// The rule or the chain.
    pub(in crate::inspect::check) name: String,
    pub(in crate::inspect::check) bits: u32,
    /// The statement that uses them.
    pub(in crate::inspect::check) statement: String,
}

/// A ruleset of nftables, as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::inspect::check) struct Ruleset {
    pub(in crate::inspect::check) users: BTreeSet<MarkUser>,
    /// Base chains of the hook `forward` with the policy drop, as `ip filter FORWARD`.
    pub(in crate::inspect::check) dropping: BTreeSet<String>,
    /// The bit by which kube-proxy marks what it masquerades.
    pub(in crate::inspect::check) masquerade: Option<u32>,
}

/// The default bits of Windlass.
fn own_bits() -> u32 {
    MarkMask::default().get()
}

/// Reads the output of `ip rule show`: rules of other programs that test a mark.
pub(super) fn rules(text: &str) -> BTreeSet<MarkUser> {
    let rule = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |word: &str| words.iter().position(|it| *it == word).and_then(|at| words.get(at + 1));
        let tested = after("fwmark")?;
        let mask = tested.split_once('/').map_or("0xffffffff", |(_, mask)| mask);
        let is_own = after("lookup").and_then(|table| table.parse::<u32>().ok()).is_some_and(|table| {
            u8::try_from(table / TABLES_PER_TAG).is_ok_and(|tag| AddressTag::new(tag).is_some())
        });
        (!is_own).then(|| MarkUser {
            name: format!("ip rule {}", words.first().unwrap_or(&"").trim_end_matches(':')),
            bits: number(mask).unwrap_or(u32::MAX),
            statement: words.iter().skip(1).copied().collect::<Vec<_>>().join(" "),
        })
    };
    text.lines().filter_map(rule).collect()
}

/// Reads the output of `nft list ruleset`. Tables of Windlass are passed over.
pub(super) fn ruleset(text: &str) -> Ruleset {
    let mut found = Ruleset::default();
    let (mut table, mut chain) = (String::new(), String::new());
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["table", family, name, "{"] => table = format!("{family} {name}"),
            ["chain", name, "{"] => name.clone_into(&mut chain),
            ["set" | "map" | "flowtable", _, "{"] | ["}"] => chain.clear(),
            _ if chain.is_empty() || is_own(&table) => {}
            ["type", _, "hook", "forward", ..] if line.contains("policy drop") => {
                found.dropping.insert(format!("{table} {chain}"));
            }
            ["type", ..] => {}
            _ => {
                let Some(bits) = bits(&words) else { continue };
                if MARKING_CHAINS.contains(&chain.as_str()) {
                    found.masquerade = Some(bits);
                }
                let name = format!("nftables chain {table} {chain}");
                found.users.insert(MarkUser { name, bits, statement: line.to_owned() });
            }
        }
    }
    found
}

fn is_own(table: &str) -> bool {
    table.split_once(' ').is_some_and(|(family, name)| family == "inet" && name.starts_with("windlass"))
}

/// The bits of the packet's mark that a rule tests or writes; `None`: none.
fn bits(words: &[&str]) -> Option<u32> {
    let places = words.windows(2).enumerate().filter(|(_, two)| *two == ["meta", "mark"]).map(|(at, _)| at);
    let used = places.filter_map(|at| {
        let rest = words.get(at + 2..)?;
        let bits = match rest {
            ["set", value @ ..] => written(value),
            // As the source of another mark: it changes nothing of this one.
            [] => 0,
            rest => masked(rest).unwrap_or(u32::MAX),
        };
        let is_source =
            at > 0 && words.get(at - 1).is_some_and(|word| matches!(*word, "set" | "and" | "or" | "xor"));
        (!is_source).then_some(bits)
    });
    used.reduce(|one, other| one | other)
}

/// The bits that are written: by `meta mark` alone those that the operators change, else all.
fn written(value: &[&str]) -> u32 {
    let (["meta", "mark", operators @ ..] | ["mark", operators @ ..]) = value else { return u32::MAX };
    let mut bits = 0;
    for two in operators.windows(2) {
        let Some(value) = number(two[1]) else { continue };
        match two[0] {
            "and" | "&" => bits |= !value,
            "or" | "|" | "xor" | "^" => bits |= value,
            _ => {}
        }
    }
    bits
}

/// The mask of a comparison, as `& 0xff == 0x10` has it.
fn masked(rest: &[&str]) -> Option<u32> {
    match rest {
        ["and" | "&", mask, ..] => number(mask),
        _ => None,
    }
}

fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// Users of Windlass' bits, and chains that drop what the host forwards.
pub(super) fn findings(host: &Host) -> Vec<Problem> {
    let mut findings = Vec::new();
    let rules = host.rules.iter().flatten();
    let of_nft = host.ruleset.iter().flat_map(|ruleset| &ruleset.users);
    let users: Vec<&MarkUser> = rules.chain(of_nft).filter(|user| user.bits & own_bits() != 0).collect();
    if let Some(first) = users.first() {
        let message = format!(
            "{} uses bits of packet marks that Windlass uses ({:#x}): `{}`. After a move, packets of forwarded connections or of that program \
             leave by a wrong way",
            first_of(users.iter().map(|user| &user.name), 3),
            first.bits & own_bits(),
            first.statement
        );
        findings.push(Problem::warning("Host", "fwmark", "MarkTaken").says(
            message,
            "give the agents bits that nothing else uses, as --forwarding-mark-mask=0xf00000, or none: --forwarding-window-seconds=0",
        ));
    }
    let is_certain = |name: &str| host.dropping_all.iter().any(|one| one == name);
    for name in &host.dropping_all {
        let message = format!(
            "the nftables chain {name} has policy drop and no rule that accepts: it drops packets to pods, so a virtual IP on this node does \
             not answer"
        );
        let remedy = format!(
            "nft chain {name} '{{ policy accept; }}', or restart kube-proxy if its rules were flushed"
        );
        findings.push(Problem::error("Host", "FORWARD", "ForwardDropped").says(message, remedy));
    }
    let chains = host.ruleset.iter().flat_map(|ruleset| &ruleset.dropping);
    for name in chains.filter(|name| !is_certain(name)) {
        let message = format!(
            "the nftables chain {name} has policy drop (Docker, ufw and firewalld set it): packets to pods pass only by the rules that \
             kube-proxy and the CNI plugin add there"
        );
        let remedy = format!(
            "if clients time out: nft list chain {name}; let packets to and from pods' addresses pass, or nft chain {name} '{{ policy accept; }}'"
        );
        findings.push(Problem::warning("Host", "FORWARD", "ForwardPolicy").says(message, remedy));
    }
    findings
}

/// The bit by which kube-proxy marks what it masquerades.
pub(super) fn masquerade(ruleset: &Result<Ruleset, String>) -> String {
    match ruleset {
        Err(why) => format!("masquerade bit not read: {why}"),
        Ok(Ruleset { masquerade: Some(bits), .. }) => format!("masquerade bit {bits:#x}"),
        Ok(_) => "no masquerade bit found".to_owned(),
    }
}

/// The rules of both families, as far as they could be read.
pub(super) fn all_rules(outputs: [Output; 2]) -> Result<BTreeSet<MarkUser>, String> {
    let mut all = BTreeSet::new();
    for output in outputs {
        all.extend(rules(&output?));
    }
    Ok(all)
}
