//! Comparison of a table's sets with what was written into them, without a copy of either.
//!
//! Each set has a fingerprint: the number of its elements and the sum of a keyed hash of each. It follows the batches that are written, and
//! is made anew of what the kernel lists, element by element. So a look at hundreds of thousands of elements takes no memory, and the
//! helper thread that looks needs nothing but the fingerprints.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::thread;
use std::time::Duration;

use super::NetfilterSocket;
use super::attributes::{self, Attributes};
use super::element::{self, ElementRef};
use super::failure::Failure;
use super::message::{Batch, Operation, TableFamily};

#[cfg(test)]
mod tests;

/// Pauses between two lists of a set that is not as expected: while the kernel makes room for more elements it lists some twice or not.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(80), Duration::from_millis(320)];
/// Attributes of messages about sets and elements.
const TABLE: u16 = 1;
const SET: u16 = 2;
const FLAGS: u16 = 3;

/// Fingerprint of a set's elements, whatever their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Fingerprint {
    count: u64,
    sum: u64,
}

impl Fingerprint {
    fn add(&mut self, element: ElementRef<'_>, key: &RandomState) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(key.hash_one(element));
    }

    fn remove(&mut self, element: ElementRef<'_>, key: &RandomState) {
        self.count = self.count.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(key.hash_one(element));
    }
}

/// Set as it was written, and the number of the batch that changed it last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Written {
    fingerprint: Fingerprint,
    batch: u64,
}

/// Fingerprints of the sets of a table as written, except sets whose elements expire.
#[derive(Clone, Debug, Default)]
pub(super) struct WrittenSets {
    /// Random key of the hash: nobody can choose elements with equal sums.
    key: RandomState,
    sets: BTreeMap<String, Written>,
    batches: u64,
}

impl WrittenSets {
    /// Follows a batch that the kernel has carried out.
    pub(super) fn follow(&mut self, batch: &Batch) {
        self.batches = self.batches.wrapping_add(1);
        for (operation, attributes) in batch.changes() {
            let attributes = attributes.as_bytes();
            match operation {
                Operation::DeleteTable => self.sets.clear(),
                Operation::NewSet => {
                    let flags = attributes::find_number(attributes, FLAGS).unwrap_or_default();
                    if let Some(name) = attributes::find_text(attributes, SET)
                        && flags & element::TIMEOUT == 0
                    {
                        let written = Written { batch: self.batches, ..Written::default() };
                        self.sets.insert(name.to_owned(), written);
                    }
                }
                Operation::NewElements => self.change(attributes, Fingerprint::add),
                Operation::DeleteElements => self.change(attributes, Fingerprint::remove),
                _ => {}
            }
        }
    }

    fn change(&mut self, attributes: &[u8], by: impl Fn(&mut Fingerprint, ElementRef<'_>, &RandomState)) {
        let name = attributes::find_text(attributes, SET);
        if let Some(written) = name.and_then(|name| self.sets.get_mut(name)) {
            written.batch = self.batches;
            if attributes::find(attributes, element::LIST).is_none() {
                // All are deleted.
                written.fingerprint = Fingerprint::default();
            }
            element::each(attributes).for_each(|element| by(&mut written.fingerprint, element, &self.key));
        }
    }

    /// Returns the comparison of the table of this family and name with what was written.
    pub(super) fn comparison(
        &self,
        (family, table): (TableFamily, &str),
        generation: Option<u32>,
    ) -> Comparison {
        Comparison { family, table: table.to_owned(), written: self.clone(), generation }
    }

    /// Judges the result of a comparison by what has been written since.
    pub(super) fn judge(&self, compared: &Compared) -> Verdict {
        let is_as_then = |name: &String| self.sets.get(name) == compared.written.sets.get(name);
        if compared.differing.iter().any(is_as_then) {
            Verdict::Differs
        } else if compared.differing.is_empty() {
            Verdict::Same
        } else {
            Verdict::Outdated
        }
    }
}

/// Result of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All sets had the written elements.
    Same,
    /// A set differs.
    Differs,
    /// A set that this process has changed meanwhile was not as before that: look again.
    Outdated,
}

/// Comparison of the sets of a table with what was written. Takes a while for many elements.
pub struct Comparison {
    family: TableFamily,
    table: String,
    written: WrittenSets,
    generation: Option<u32>,
}

/// Result of a comparison.
pub struct Compared {
    written: WrittenSets,
    /// Count of ruleset changes before the look.
    pub(super) generation: Option<u32>,
    /// Names of sets that differ from what was written.
    differing: Vec<String>,
}

impl Comparison {
    /// Looks, in the network namespace of the calling thread.
    pub fn run(self) -> Result<Compared, Failure> {
        let mut socket = NetfilterSocket::open_for(self.family)
            .map_err(|source| Failure::new("open a netfilter socket", source))?;
        self.run_by(&mut socket)
    }

    /// Looks, in the network namespace of the socket.
    pub(super) fn run_by(self, socket: &mut NetfilterSocket) -> Result<Compared, Failure> {
        let Self { family, table, written, generation } = self;
        let failed =
            |source| Failure::new(format!("read the sets of the nftables table {family} {table}"), source);
        let mut differing = Vec::new();
        for (name, expected) in &written.sets {
            let mut list = || found(socket, &table, name, &written.key);
            if !is_found(expected.fingerprint, &mut list).map_err(failed)? {
                differing.push(name.clone());
            }
        }
        Ok(Compared { written, generation, differing })
    }
}

/// Returns true if one of several lists has this fingerprint.
fn is_found(
    expected: Fingerprint,
    list: &mut impl FnMut() -> io::Result<Option<Fingerprint>>,
) -> io::Result<bool> {
    for pause in [None].into_iter().chain(PAUSES.map(Some)) {
        pause.into_iter().for_each(thread::sleep);
        match list()? {
            Some(found) if found == expected => return Ok(true),
            Some(_) => {}
            None => return Ok(false),
        }
    }
    Ok(false)
}

/// Fingerprint of a set in the kernel; `None` if there is no such set.
fn found(
    socket: &mut NetfilterSocket,
    table: &str,
    set: &str,
    key: &RandomState,
) -> io::Result<Option<Fingerprint>> {
    let about = Attributes::new().text(TABLE, table).text(SET, set);
    let mut found = Fingerprint::default();
    let answer = socket.ask_each(Operation::GetElements, &about, |answer| {
        element::each(answer).for_each(|element| found.add(element, key));
    });
    match answer {
        // Whoever changed some table meanwhile did not change the elements that were listed.
        Ok(()) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(found)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}
