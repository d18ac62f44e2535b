//! Contents of a table, and the batches that install and change them. Pure.

use std::collections::BTreeSet;

use super::attributes::Attributes;
use super::chain::{Chain, add_chains, new_table};
use super::element::{self, Element};
use super::message::{Batch, Operation, TableFamily};

/// Most elements in one message: an attribute has at most 65,535 bytes, and an element takes at most 100.
pub const ELEMENTS_IN_A_MESSAGE: usize = 500;

/// Elements of a set that a change deletes and adds.
#[expect(clippy::exhaustive_structs, reason = "the parts of a difference")]
pub struct SetChange {
    /// Name of the set.
    pub set: &'static str,
    /// Elements that are deleted.
    pub gone: BTreeSet<Element>,
    /// Elements that are added.
    pub come: BTreeSet<Element>,
}

/// Contents of a table of one kind. The default contents are those of a table without elements.
pub trait TableContents: Clone + Default {
    /// Family of the table.
    const FAMILY: TableFamily;

    /// Returns the names of the sets, each with the attributes that define it.
    fn sets(&self) -> Vec<(&'static str, Attributes)>;

    /// Returns the chains, each after those that it goes to.
    fn chains(&self) -> Vec<Chain>;

    /// Returns the differences of the sets between these contents and the next. Sets whose elements expire have none.
    fn changes(&self, next: &Self) -> Vec<SetChange>;

    /// Returns the elements that expire, by set. Each renewal and each change gives all of them their whole lifetime.
    fn expiring(&self) -> Vec<(&'static str, BTreeSet<Element>)> {
        Vec::new()
    }

    /// Returns the number of rules in the table.
    fn rules(&self) -> usize {
        self.chains().iter().map(|chain| chain.rules.len()).sum()
    }

    /// Returns true if the next contents have the same chains, so that no new table is needed for them.
    fn has_chains_of(&self, _next: &Self) -> bool {
        true
    }

    /// Returns the contents after the next transaction on the way to the desired ones; `None` if these take one transaction.
    fn step_to(&self, _wanted: &Self) -> Option<Self> {
        None
    }

    /// Adds steps that fail where the kernel lacks a part of nf_tables, each named after the part.
    fn require_parts(_batch: &mut Batch, _table: &str) {}

    /// Adds the changes of chains of single interfaces.
    fn change_devices(&self, _next: &Self, _batch: &mut Batch, _table: &str) {}
}

/// Returns the batch that replaces the table, whatever exists under its name.
pub fn install<C: TableContents>(table: &str, contents: &C) -> Batch {
    let family = C::FAMILY;
    let mut batch = new_table(family, table);
    C::require_parts(&mut batch, table);
    for ((set, definition), id) in contents.sets().iter().zip(1..) {
        let what = format!("create the set {set} in the table {family} {table}");
        batch.add(what, Operation::NewSet, of_set(table, set).number(10, id).and(definition));
    }
    add_chains(&mut batch, family, table, &contents.chains());
    add_change(&mut batch, table, &C::default(), contents);
    add_renewal(&mut batch, table, contents);
    batch
}

/// Returns the batch that shows that the kernel has all parts of such a table, and leaves no table of this name.
pub fn trial<C: TableContents>(table: &str) -> Batch {
    let mut batch = new_table(C::FAMILY, table);
    C::require_parts(&mut batch, table);
    let delete = format!("delete the table {} {table}", C::FAMILY);
    batch.add(delete, Operation::DeleteTable, Attributes::new().text(1, table));
    batch
}

/// Returns the batch that changes the table from the installed contents to the next.
pub fn update<C: TableContents>(table: &str, installed: &C, next: &C) -> Batch {
    let mut batch = Batch::default();
    add_change(&mut batch, table, installed, next);
    if !batch.is_empty() {
        add_renewal(&mut batch, table, next);
    }
    batch
}

/// Returns the batch after which only these elements are in the sets whose elements expire, each for its whole lifetime.
pub fn renewal<C: TableContents>(table: &str, contents: &C) -> Batch {
    let expiring = contents.expiring();
    let mut batch = Batch::default();
    let what = |set: &str| format!("renew the set {set} of the table {} {table}", C::FAMILY);
    // An element that is there keeps its end, so all go first.
    for (set, _) in &expiring {
        batch.add(what(set), Operation::DeleteElements, of_set(table, set));
    }
    for (set, elements) in &expiring {
        add_elements(&mut batch, &what(set), table, set, Operation::NewElements, elements);
    }
    batch
}

/// Names a set for a request about its elements.
pub fn of_set(table: &str, set: &str) -> Attributes {
    Attributes::new().text(1, table).text(2, set)
}

fn add_change<C: TableContents>(batch: &mut Batch, table: &str, installed: &C, next: &C) {
    for SetChange { set, gone, come } in installed.changes(next) {
        let of = format!("the set {set} of the table {} {table}", C::FAMILY);
        let what = format!("delete elements from {of}");
        add_elements(batch, &what, table, set, Operation::DeleteElements, &gone);
        add_elements(batch, &format!("add elements to {of}"), table, set, Operation::NewElements, &come);
    }
    installed.change_devices(next, batch, table);
}

fn add_renewal<C: TableContents>(batch: &mut Batch, table: &str, contents: &C) {
    if contents.expiring().iter().any(|(_, elements)| !elements.is_empty()) {
        batch.append(renewal(table, contents));
    }
}

/// Applies the operation to the elements, if there are any.
fn add_elements(
    batch: &mut Batch,
    what: &str,
    table: &str,
    set: &str,
    operation: Operation,
    elements: &BTreeSet<Element>,
) {
    let elements: Vec<&Element> = elements.iter().collect();
    for piece in elements.chunks(ELEMENTS_IN_A_MESSAGE) {
        batch.add(what, operation, of_set(table, set).nest(3, &element::encode(piece.iter().copied())));
    }
}
