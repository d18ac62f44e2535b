//! Many operations of all kinds, one after the other, and what the addresses take of memory.

use std::process::Command;

use windlass_ipam::{Family, Moment};

use crate::report::Row;
use crate::site::{Site, cpu_time, since};

/// Does `operations` operations where `in_use` addresses are in use. In turn: give an owner an address, ask for another
/// owner that has one, release one, and lift what is due. Released addresses are due 1,000 turns later.
pub(crate) fn run(family: Family, in_use: u64, operations: u64) -> Row {
    println!("mixed {family}: {operations} operations …");
    let mut site = Site::new(family, in_use, false);
    let begin = cpu_time();
    let (mut done, mut turn) = (0, 0_u64);
    while done < operations {
        turn += 1;
        let plan = site.allocate();
        let index = site.random.below(site.held.len());
        let new = (site.last_owner(), plan.addresses[0].address);
        let (owner, address) = std::mem::replace(&mut site.held[index], new);
        site.allocator.plan(&owner, &site.request).unwrap();
        site.allocator.release(address, &owner, Moment(turn * 60));
        done += 3;
        let due = site.allocator.ended_quarantines(Moment(turn * 60)).next();
        if let Some(due) = due {
            site.allocator.end_quarantine(due);
            done += 1;
        }
    }
    let took = since(begin);
    assert_eq!(site.allocator.in_use().count(), site.held.len(), "none lost, none doubled");
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let ns_per_op = took.as_nanos() as f64 / done as f64;
    Row {
        operation: "mixed",
        family,
        in_use,
        ns_per_op,
        bytes_per_address: Some(bytes_per_address(family, in_use)),
    }
}

/// First argument of the process that tells its memory.
pub(crate) const MEMORY: &str = "memory";

/// Measured in a process of its own, whose memory holds nothing else.
fn bytes_per_address(family: Family, in_use: u64) -> f64 {
    let program = std::env::current_exe().unwrap();
    let arguments = [MEMORY.to_owned(), family.to_string(), in_use.to_string()];
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("the process that tells its memory said {text:?}"))
}

/// Prints the bytes that each of so many addresses takes: `<family> <in use>`.
pub(crate) fn print_memory(arguments: &[String]) {
    let [family, in_use] = arguments else { panic!("{MEMORY} takes a family and a number: {arguments:?}") };
    let family = Family::ALL.into_iter().find(|one| one.to_string() == *family).unwrap();
    let in_use: u64 = in_use.parse().unwrap();
    let before = resident();
    let site = Site::new(family, in_use, false);
    let notes = u64::try_from(site.held.capacity() * size_of::<(u64, std::net::IpAddr)>()).unwrap();
    println!("{}", resident().saturating_sub(before + notes) / in_use);
}

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}
