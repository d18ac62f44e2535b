//! A table of this process in the kernel: changes it and detects changes by other processes.

use std::io;

use super::NetfilterSocket;
use super::attributes::{self, Attributes};
use super::failure::Failure;
use super::fingerprint::{Compared, Comparison, Verdict, WrittenSets};
use super::message::{Batch, Operation, TableFamily};

/// Result of checking a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::exhaustive_enums, reason = "an answer")]
pub enum Checked {
    /// The table is as it was left.
    Intact,
    /// The table differed, and was made anew.
    Restored {
        /// Difference that was found.
        found: &'static str,
    },
}

/// Handles that distinguish this table from another of the same name, and its rules from others. Handles are never used twice.
#[derive(PartialEq, Eq, Debug)]
struct Identity {
    table: u64,
    rules: Vec<u64>,
}

/// A table. Every call may wait in the kernel.
pub struct Table {
    family: TableFamily,
    name: String,
    netfilter: NetfilterSocket,
    /// `None`: not known, so the table is to be made anew at the next occasion.
    identity: Option<Identity>,
    /// The kernel's count of ruleset changes, when the table was last found intact.
    generation: Option<u32>,
    written: WrittenSets,
}

impl Table {
    /// Opens a table in the network namespace of the calling thread. Changes nothing there yet.
    pub fn open(family: TableFamily, name: &str) -> Result<Self, Failure> {
        let netfilter = NetfilterSocket::open_for(family)
            .map_err(|source| Failure { what: "open a netfilter socket".to_owned(), source })?;
        Ok(Self {
            family,
            name: name.to_owned(),
            netfilter,
            identity: None,
            generation: None,
            written: WrittenSets::default(),
        })
    }

    /// Name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn title(&self) -> String {
        format!("nftables table {} {}", self.family, self.name)
    }

    /// Returns true if it is known to have been made by this process.
    pub fn is_known(&self) -> bool {
        self.identity.is_some()
    }

    /// Makes it by this batch, after which it has so many rules.
    pub fn make(&mut self, batch: &Batch, rules: usize) -> Result<(), Failure> {
        self.identity = None;
        self.commit(batch)?;
        self.identity = self.identify(rules)?;
        Ok(())
    }

    /// Changes chains by this batch, after which the table has so many rules. The table is still this one: what another process made
    /// meanwhile under its name is not taken for it.
    pub fn change_chains(&mut self, batch: &Batch, rules: usize) -> Result<(), Failure> {
        self.commit(batch)?;
        let table = self.identity.take().map(|known| known.table);
        self.identity = self.identify(rules)?.filter(|found| Some(found.table) == table);
        Ok(())
    }

    /// Carries out all of the batch or nothing.
    pub fn commit(&mut self, batch: &Batch) -> Result<(), Failure> {
        self.netfilter.commit(batch).map_err(|refusal| {
            if refusal.message.is_none() {
                // Not the kernel's word: whether it was carried out is unknown.
                self.identity = None;
            }
            let what = refusal.message.and_then(|message| batch.what(message));
            let what = what.map_or_else(|| format!("write the {}", self.title()), str::to_owned);
            Failure { what, source: refusal.source }
        })?;
        self.written.follow(batch);
        Ok(())
    }

    /// Records the table as still intact if the batch just committed was the only change since it was found intact.
    pub fn note_own_change(&mut self) -> Result<(), Failure> {
        if let Some(known) = self.generation {
            self.generation = self.generation()?.filter(|found| *found == known.wrapping_add(1));
        }
        Ok(())
    }

    /// The kernel's count of ruleset changes, of all tables.
    pub fn generation(&mut self) -> Result<Option<u32>, Failure> {
        let answers = self.ask(Operation::GetGeneration, &Attributes::new())?;
        Ok(answers.and_then(|answers| attributes::find_number(answers.first()?, 1)))
    }

    /// Returns true if nothing was changed in any table since this one was found intact.
    pub fn is_untouched(&self, generation: Option<u32>) -> bool {
        generation.is_some() && generation == self.generation && self.identity.is_some()
    }

    /// Records that it was found intact. `generation` was read before the check: later changes are seen by the next check.
    pub fn note_intact(&mut self, generation: Option<u32>) {
        self.generation = generation;
    }

    /// Returns the difference from the table as it was left, except its sets' elements; `rules` is the number of rules it had.
    pub fn difference_of_rules(&mut self, rules: usize) -> Result<Option<&'static str>, Failure> {
        let Some(known) = self.identity.take() else { return Ok(Some("its state was unknown")) };
        let Some(found) = self.identify(rules)? else { return Ok(Some("it was gone or being changed")) };
        if found.table != known.table {
            return Ok(Some("another process had made it anew"));
        }
        if found != known {
            return Ok(Some("its rules were changed"));
        }
        self.identity = Some(known);
        Ok(None)
    }

    /// Returns the comparison of its sets with what was written. `generation` was read before: later changes are seen by the next
    /// check.
    pub fn comparison(&self, generation: Option<u32>) -> Comparison {
        self.written.comparison((self.family, &self.name), generation)
    }

    /// Judges the result of a comparison by what has been written since.
    pub fn judge(&mut self, compared: &Compared) -> Verdict {
        let verdict = self.written.judge(compared);
        if verdict == Verdict::Same {
            self.generation = compared.generation;
        }
        verdict
    }

    /// Returns true if its sets have the written elements; the calling thread compares them.
    pub fn has_written_elements(&mut self, generation: Option<u32>) -> Result<bool, Failure> {
        let compared = self.comparison(generation).run_by(&mut self.netfilter)?;
        Ok(self.judge(&compared) == Verdict::Same)
    }

    /// Deletes it, unless it is gone or another process has made it anew.
    pub fn remove(&mut self) -> Result<(), Failure> {
        let Some(identity) = self.identity.take() else { return Ok(()) };
        let mut batch = Batch::default();
        // The table with this handle: not one that another process made under the same name.
        let what = format!("delete the {}", self.title());
        batch.add(what, Operation::DeleteTable, Attributes::new().long(4, identity.table));
        self.commit(&batch).or_else(|failure| if failure.is_absence() { Ok(()) } else { Err(failure) })
    }

    /// Sends a request; `None` if the object does not exist, or was being changed each time.
    pub fn ask(&mut self, operation: Operation, about: &Attributes) -> Result<Option<Vec<Vec<u8>>>, Failure> {
        for _ in 0..5 {
            match self.netfilter.ask(operation, about) {
                Ok(answers) => return Ok(Some(answers)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
                Err(source) => {
                    return Err(Failure { what: format!("read the {}", self.title()), source });
                }
            }
        }
        Ok(None)
    }

    /// Reads the identity; `None` if the table is absent, dormant or has another number of rules.
    fn identify(&mut self, rules: usize) -> Result<Option<Identity>, Failure> {
        let named = Attributes::new().text(1, &self.name);
        let Some(tables) = self.ask(Operation::GetTable, &named)? else { return Ok(None) };
        let Some(table) = tables.first() else { return Ok(None) };
        let (Some(0), Some(handle)) = (attributes::find_number(table, 2), attributes::find_long(table, 4))
        else {
            return Ok(None);
        };
        let Some(found) = self.ask(Operation::GetRules, &named)? else { return Ok(None) };
        let found: Vec<_> = found.iter().filter_map(|rule| attributes::find_long(rule, 3)).collect();
        Ok((found.len() == rules).then_some(Identity { table: handle, rules: found }))
    }
}
