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

impl Failure {
    /// Returns true if the object to change does not exist.
    pub fn is_absence(&self) -> bool {
        self.source.raw_os_error() == Some(libc::ENOENT)
    }
}
