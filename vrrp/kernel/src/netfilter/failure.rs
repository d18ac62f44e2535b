//! Failed operations on nf_tables.

use std::io;

/// Operation that failed, and its error.
#[derive(Debug)]
pub struct Failure {
    /// Operation that failed, as in "cannot `what`".
    pub what: String,
    /// Error from the kernel.
    pub source: io::Error,
}

/// Kind of the kernel's answer to an operation that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The process may not change nf_tables.
    Denied,
    /// The kernel has no nf_tables, or not the part that the operation needs.
    Unsupported,
    /// Anything else.
    Other,
}

impl Failure {
    /// Returns the kind of the kernel's answer.
    pub fn refusal(&self) -> Refusal {
        match self.source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Refusal::Denied,
            Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => Refusal::Unsupported,
            _ => Refusal::Other,
        }
    }

    /// Returns true if the object to change does not exist.
    pub fn is_absence(&self) -> bool {
        self.source.raw_os_error() == Some(libc::ENOENT)
    }
}
