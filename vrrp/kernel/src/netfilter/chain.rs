//! Tables, chains and their rules.

use super::attributes::Attributes;
use super::expression::{Expression, encode};
use super::message::{Batch, Operation, TableFamily};

/// Hook of the family `netdev` that sees frames as they arrive by an interface.
const INGRESS: u32 = 0;
/// Hook that sees packets as they arrive.
pub const PREROUTING: u32 = 0;
/// Hook that sees packets to the node itself.
pub const INPUT: u32 = 1;
/// Hook that sees packets that the node forwards.
pub const FORWARD: u32 = 2;
/// Hook that sees packets that the node itself sends.
pub const OUTPUT: u32 = 3;
/// Hook that sees packets as they leave.
pub const POSTROUTING: u32 = 4;

/// Point at which a chain begins to see packets.
#[derive(Clone, Copy)]
pub struct Hook {
    /// Type of the chain: `filter`, `nat` or `route`.
    pub kind: &'static str,
    /// Number of the hook, as [`PREROUTING`].
    pub number: u32,
    /// Chains with a lower one see packets earlier.
    pub priority: i32,
}

/// A chain; without a hook packets come to it by rules of others.
pub struct Chain {
    /// Name of the chain.
    pub name: &'static str,
    /// Hook; `None` if only rules of other chains lead here.
    pub hook: Option<Hook>,
    /// Rules in their order.
    pub rules: Vec<Vec<Expression>>,
}

/// Begins a batch that replaces a table, whatever exists under its name, by an empty one.
pub(super) fn new_table(family: TableFamily, table: &str) -> Batch {
    let mut batch = Batch::default();
    let named = || Attributes::new().text(1, table);
    let create = format!("create the nftables table {family} {table}");
    // Deleting what is not there is an error, so it is made sure to be there.
    batch.add(&create, Operation::NewTable, named());
    batch.add(format!("delete the old nftables table {family} {table}"), Operation::DeleteTable, named());
    batch.add(&create, Operation::NewTable, named().number(2, 0));
    batch
}

/// Makes these chains in a table that has none of them, each after those that it goes to.
pub(super) fn add_chains(batch: &mut Batch, family: TableFamily, table: &str, chains: &[Chain]) {
    let named = || Attributes::new().text(1, table);
    for chain in chains {
        batch.add(
            format!("create the chain {} in the table {family} {table}", chain.name),
            Operation::NewChain,
            base_chain(named().text(3, chain.name), chain.hook),
        );
    }
    for chain in chains {
        for (number, rule) in (1..).zip(chain.rules.iter()) {
            batch.add(
                format!("create rule {number} of the chain {} in the table {family} {table}", chain.name),
                Operation::NewRule,
                named().text(2, chain.name).nest(4, &encode(rule)),
            );
        }
    }
}

fn base_chain(named: Attributes, hook: Option<Hook>) -> Attributes {
    const ACCEPT: u32 = 1;
    let Some(Hook { kind, number, priority }) = hook else { return named };
    let hook = Attributes::new().number(1, number).number(2, priority.cast_unsigned());
    named.nest(4, &hook).number(5, ACCEPT).text(7, kind)
}

const OF_INTERFACE: &str = "chain of the interface";

/// Chain of a table of the family `netdev` that sees the frames that arrive by one device, before the IP stack.
pub struct DeviceChain<'a> {
    /// Name of the table.
    pub table: &'a str,
    /// Name of the interface.
    pub device: &'a str,
}

impl DeviceChain<'_> {
    /// Makes the chain anew with this rule. The device must exist.
    pub fn renew(&self, batch: &mut Batch, priority: i32, rule: &[Expression]) {
        self.remove(batch);
        let what = format!("create the {}", self.title());
        let hook = Attributes::new().number(1, INGRESS).number(2, priority.cast_unsigned());
        // Without the chain's type, of which there is one: so ENOENT is a missing device, and nothing else.
        let chain = self.named(3).nest(4, &hook.text(3, self.device));
        batch.add(&what, Operation::NewChain, chain);
        batch.add(what, Operation::NewRule, self.named(2).nest(4, &encode(rule)));
    }

    /// Removes the chain, also if the kernel has removed it with its device.
    pub fn remove(&self, batch: &mut Batch) {
        let what = format!("delete the {}", self.title());
        batch.add(&what, Operation::NewChain, self.named(3));
        batch.add(what, Operation::DeleteChain, self.named(3));
    }

    /// Returns true if a step of this description is about the chain of an interface.
    pub(super) fn is_named_in(what: &str) -> bool {
        what.contains(OF_INTERFACE)
    }

    fn title(&self) -> String {
        format!("{OF_INTERFACE} {} in the table netdev {}", self.device, self.table)
    }

    /// Names the chain, in an attribute of this number.
    fn named(&self, number: u16) -> Attributes {
        Attributes::new().text(1, self.table).text(number, &format!("from-{}", self.device))
    }
}
