//! A table of this process in the kernel: installs it, changes it, and detects and repairs changes by other processes.

use std::io;

use super::NetfilterSocket;
use super::attributes::{self, Attributes};
use super::contents::{self, TableContents};
use super::failure::Failure;
use super::fingerprint::{Compared, Comparison, Verdict, WrittenSets};
use super::message::{Batch, Operation};

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

/// A table that this process makes and keeps. Dropping it leaves the table in place. Every call may wait in the kernel.
pub struct OwnedTable<C> {
    name: String,
    netfilter: NetfilterSocket,
    /// `None`: not known, so the table is to be made anew at the next occasion.
    identity: Option<Identity>,
    /// The kernel's count of ruleset changes, when the table was last found intact.
    generation: Option<u32>,
    written: WrittenSets,
    /// Contents as last written, with which a damaged table is made anew.
    installed: C,
}

impl<C: TableContents> OwnedTable<C> {
    /// Opens a table in the network namespace of the calling thread. Changes nothing there yet.
    pub fn open(name: &str) -> Result<Self, Failure> {
        let netfilter = NetfilterSocket::open_for(C::FAMILY)
            .map_err(|source| Failure::new("open a netfilter socket", source))?;
        Ok(Self {
            name: name.to_owned(),
            netfilter,
            identity: None,
            generation: None,
            written: WrittenSets::default(),
            installed: C::default(),
        })
    }

    /// Name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn title(&self) -> String {
        format!("nftables table {} {}", C::FAMILY, self.name)
    }

    /// Returns true if the table is known to have been made by this process.
    pub fn is_known(&self) -> bool {
        self.identity.is_some()
    }

    /// Contents as last written.
    pub fn installed(&self) -> &C {
        &self.installed
    }

    /// Tries whether the kernel has all parts of such a table: makes one of this name and deletes it, in one transaction.
    pub fn try_kernel(mut self) -> Result<(), Failure> {
        let batch = contents::trial::<C>(&self.name);
        self.commit(&batch).map_err(Failure::of_new_table)
    }

    /// Changes the table to these contents. Makes it anew, in one transaction, if it is not known or gone, or if the contents have other
    /// chains. After an error the table is as before the transaction that failed, and the next call continues.
    pub fn apply(&mut self, wanted: C) -> Result<(), Failure> {
        if !self.is_known() || !self.installed.has_chains_of(&wanted) {
            return self.make(wanted);
        }
        loop {
            let step = self.installed.step_to(&wanted);
            match self.change(step.as_ref().unwrap_or(&wanted)) {
                Err(failure) if failure.is_absence() => return self.make_lost(&failure, wanted),
                changed => changed?,
            }
            let Some(step) = step else {
                self.installed = wanted;
                return Ok(());
            };
            self.installed = step;
        }
    }

    /// Renews the elements that expire, after a change of them. In a table that is not known they are there when it is made anew.
    pub fn renew(&mut self, change: impl FnOnce(&mut C)) -> Result<(), Failure> {
        change(&mut self.installed);
        let batch = contents::renewal(&self.name, &self.installed);
        if !self.is_known() || batch.is_empty() {
            return Ok(());
        }
        match self.commit(&batch) {
            Err(failure) if failure.is_absence() => self.make_lost(&failure, self.installed.clone()),
            renewed => {
                self.note_own_change();
                renewed
            }
        }
    }

    /// Checks that table and rules are there, and makes them anew if not. Cheap even while other processes change nftables tables all the
    /// time.
    pub fn quick_check(&mut self) -> Result<Checked, Failure> {
        let generation = self.generation()?;
        if self.is_untouched(generation) {
            return Ok(Checked::Intact);
        }
        match self.difference_of_rules()? {
            Some(found) => self.restore(found),
            None => Ok(Checked::Intact),
        }
    }

    /// Checks rules and elements, and makes the table anew if they are not as they were left. Lists all elements if a process has changed
    /// any table of the node.
    pub fn full_check(&mut self) -> Result<Checked, Failure> {
        // Asked before looking: what changes from here on is seen at the next check.
        let generation = self.generation()?;
        if self.is_untouched(generation) {
            return Ok(Checked::Intact);
        }
        if let Some(found) = self.difference_of_rules()? {
            return self.restore(found);
        }
        let compared = self.written.comparison((C::FAMILY, &self.name), generation);
        let compared = compared.run_by(&mut self.netfilter)?;
        // No other thread has changed anything meanwhile.
        Ok(self.settle(&compared)?.unwrap_or(Checked::Intact))
    }

    /// The slow part of [`Self::full_check`], for another thread, whose answer is for [`Self::settle`]; `None` if the table cannot have
    /// changed.
    pub fn comparison(&mut self) -> Result<Option<Comparison>, Failure> {
        let generation = self.generation()?;
        Ok((!self.is_untouched(generation))
            .then(|| self.written.comparison((C::FAMILY, &self.name), generation)))
    }

    /// Makes the table anew if its sets were not as they were left. `None` if that is not known, as they were changed by this process.
    pub fn settle(&mut self, compared: &Compared) -> Result<Option<Checked>, Failure> {
        match self.written.judge(compared) {
            Verdict::Same => {
                self.generation = compared.generation;
                Ok(Some(Checked::Intact))
            }
            Verdict::Differs => self.restore("the elements of a set were changed").map(Some),
            Verdict::Outdated => Ok(None),
        }
    }

    fn restore(&mut self, found: &'static str) -> Result<Checked, Failure> {
        self.make(self.installed.clone())?;
        Ok(Checked::Restored { found })
    }

    /// Makes the table anew in one transaction. The table that it replaces is in force up to this moment.
    fn make(&mut self, contents: C) -> Result<(), Failure> {
        self.identity = None;
        let batch = contents::install(&self.name, &contents);
        self.commit(&batch).map_err(Failure::of_new_table)?;
        self.identity = self.identify(contents.rules())?;
        self.installed = contents;
        Ok(())
    }

    /// Makes the table anew after a change of it that found something gone.
    fn make_lost(&mut self, failure: &Failure, contents: C) -> Result<(), Failure> {
        tracing::warn!(
            table = self.name, %failure,
            "the nftables table is not as it was left: another program changed or removed it, or an interface is gone; installing it \
             again"
        );
        self.make(contents)
    }

    /// Changes the table to the next contents in one transaction.
    fn change(&mut self, next: &C) -> Result<(), Failure> {
        let batch = contents::update(&self.name, &self.installed, next);
        if batch.is_empty() {
            return Ok(());
        }
        self.commit(&batch)?;
        if batch.changes_rules() {
            // The table is still this one: what another process made meanwhile under its name is not taken for it.
            let table = self.identity.take().map(|known| known.table);
            self.identity = self.identify(next.rules())?.filter(|found| Some(found.table) == table);
        }
        self.note_own_change();
        Ok(())
    }

    /// Carries out all of the batch or nothing.
    fn commit(&mut self, batch: &Batch) -> Result<(), Failure> {
        self.netfilter.commit(batch).map_err(|refusal| {
            if refusal.message.is_none() {
                // Not the kernel's word: whether it was carried out is unknown.
                self.identity = None;
            }
            let what = refusal.message.and_then(|message| batch.what(message));
            Failure::new(
                what.map_or_else(|| format!("write the {}", self.title()), str::to_owned),
                refusal.source,
            )
        })?;
        self.written.follow(batch);
        Ok(())
    }

    /// Records the table as still intact if the batch just committed was the only change since it was found intact.
    fn note_own_change(&mut self) {
        if let Some(known) = self.generation.take() {
            self.generation =
                self.generation().ok().flatten().filter(|found| *found == known.wrapping_add(1));
        }
    }

    /// The kernel's count of ruleset changes, of all tables.
    fn generation(&mut self) -> Result<Option<u32>, Failure> {
        let answers = self.ask(Operation::GetGeneration, &Attributes::new())?;
        Ok(answers.and_then(|answers| attributes::find_number(answers.first()?, 1)))
    }

    /// Returns true if nothing was changed in any table since this one was found intact.
    fn is_untouched(&self, generation: Option<u32>) -> bool {
        generation.is_some() && generation == self.generation && self.identity.is_some()
    }

    /// Returns the difference from the table as it was left, except its sets' elements.
    fn difference_of_rules(&mut self) -> Result<Option<&'static str>, Failure> {
        let Some(known) = self.identity.take() else { return Ok(Some("its state was unknown")) };
        let Some(found) = self.identify(self.installed.rules())? else {
            return Ok(Some("it was gone or being changed"));
        };
        if found.table != known.table {
            return Ok(Some("another process had made it anew"));
        }
        if found != known {
            return Ok(Some("its rules were changed"));
        }
        self.identity = Some(known);
        Ok(None)
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

    /// Deletes the table of this name, which an earlier process may have left. It is no error if there is none, or if the kernel has no such
    /// tables.
    pub fn remove_left_over(mut self) -> Result<(), Failure> {
        let mut batch = Batch::default();
        let named = Attributes::new().text(1, &self.name);
        batch.add(format!("delete the {}", self.title()), Operation::DeleteTable, named);
        let is_none = |failure: &Failure| failure.is_absence() || failure.is_lack();
        self.commit(&batch).or_else(|failure| if is_none(&failure) { Ok(()) } else { Err(failure) })
    }

    /// Sends a request; `None` if the object does not exist, or was being changed each time.
    pub fn ask(&mut self, operation: Operation, about: &Attributes) -> Result<Option<Vec<Vec<u8>>>, Failure> {
        for _ in 0..5 {
            match self.netfilter.ask(operation, about) {
                Ok(answers) => return Ok(Some(answers)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
                Err(source) => return Err(Failure::new(format!("read the {}", self.title()), source)),
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
