//! Programs of the host whose output is read: `ip` and `nft` show what the kernel has in words.

use std::process::{Command, Stdio};

/// Output of a program, or the reason why there is none.
pub(super) type Output = Result<String, String>;

/// Runs a program that only reads.
pub(super) fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program} cannot be run ({error})"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program} {} failed: {}", arguments.join(" "), said.trim()))
    }
}
