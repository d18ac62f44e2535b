//! `windlass convert`: pools of other load balancers as pools of Windlass, and how they were announced as Announcements.
//! Text in, text out; nothing is asked of a cluster.
//!
//! | file | concept |
//! |---|---|
//! | `input` | YAML documents, lists and objects; one bad document stops no other |
//! | `fields` | reading a field of an object, or saying why it cannot be read |
//! | `metallb` | MetalLB's objects |
//! | `addresses` | ranges of addresses as a `VirtualIPPool` takes them |
//! | `selectors` | label selectors as `VirtualIPPool`s and Announcements take them |
//! | `pools` | MetalLB's pools as `VirtualIPPool`s |
//! | `announcements` | how they were announced, as `Announcement`s |

mod addresses;
mod announcements;
mod fields;
mod input;
mod metallb;
mod pools;
mod selectors;

use std::io::{IsTerminal as _, Read as _, Write as _};

use anyhow::{Context as _, bail, ensure};

#[cfg(test)]
mod tests;

/// The result of a conversion.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Conversion {
    /// The pools and Announcements, as YAML documents.
    pub(crate) yaml: String,
    /// How many pools there are.
    pub(crate) pools: usize,
    /// What is different from before, with object, field and remedy.
    pub(crate) warnings: Vec<String>,
    /// What was left out, with object, field and remedy: the result is not the whole.
    pub(crate) errors: Vec<String>,
}

/// Converts what stands on standard input: pools to standard output, warnings and errors to standard error.
///
/// # Errors
/// When nothing could be converted, or not all of it; what could be is on standard output then.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut input = std::io::stdin();
    ensure!(
        !input.is_terminal(),
        "give MetalLB's objects on standard input: windlass convert metallb < pools.yaml"
    );
    let mut text = Vec::new();
    input.read_to_end(&mut text).context("cannot read standard input")?;
    let text = String::from_utf8(text).context("standard input is not text in UTF-8: save it as such")?;
    let conversion = convert(&text);
    for warning in &conversion.warnings {
        eprintln!("windlass: warning: {warning}");
    }
    for error in &conversion.errors {
        eprintln!("windlass: error: {error}");
    }
    std::io::stdout().write_all(conversion.yaml.as_bytes()).context("cannot write to standard output")?;
    match (conversion.pools, conversion.errors.is_empty()) {
        (0, true) => bail!("{NO_POOL}"),
        (0, false) => bail!("no pool was converted: correct the errors above in the input"),
        (_, true) => Ok(()),
        (_, false) => {
            bail!("not everything was converted: correct the errors above in the input, and convert it again")
        }
    }
}

/// Converts every pool of MetalLB in `text`.
fn convert(text: &str) -> Conversion {
    pools::convert(metallb::read(text))
}

const NO_POOL: &str = "the input has no pool of MetalLB: give IPAddressPools (or the ConfigMap \
    of MetalLB 0.12 and older), as `kubectl get ipaddresspools.metallb.io -A -o yaml` prints them";
