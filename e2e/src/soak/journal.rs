//! Journal of operations, with their times.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use k8s_openapi::jiff::Timestamp;

/// A file with a line for each operation, in the order in which they were begun.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Whose it is, on the terminal.
    of: &'static str,
    path: PathBuf,
    file: RefCell<File>,
    operations: Cell<u64>,
    kinds: RefCell<BTreeMap<&'static str, u32>>,
}

impl Journal {
    /// A new one.
    pub(crate) fn new(of: &'static str, path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("making {}", path.display()))?;
        Ok(Self {
            of,
            path: path.to_owned(),
            file: RefCell::new(file),
            operations: Cell::default(),
            kinds: RefCell::default(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Something is about to be done.
    pub(crate) fn note(&self, what: &str) {
        // (A journal that cannot be written must not end what it tells of.)
        let _ = writeln!(self.file.borrow_mut(), "{} {what}", Timestamp::now());
    }

    /// Records the same, and prints it.
    pub(crate) fn tell(&self, what: &str) {
        self.note(what);
        println!("{}: {} {what}", self.of, Timestamp::now());
    }

    /// Something was done.
    pub(crate) fn count(&self, kind: &'static str) {
        self.operations.set(self.operations.get() + 1);
        *self.kinds.borrow_mut().entry(kind).or_default() += 1;
    }

    /// Returns the number of operations.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// Returns the numbers of operations by kind.
    pub(crate) fn kinds(&self) -> String {
        let kinds = self.kinds.borrow();
        kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
    }
}
