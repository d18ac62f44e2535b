//! Many operations of all kinds, one after the other, and what the addresses take of memory.

use std::time::Instant;

use windlass_ipam::{Family, Moment};

use crate::report::Row;
use crate::site::Site;

/// Does `operations` operations where `in_use` addresses are in use. In turn: give an owner an address, ask for another
/// owner that has one, release one, and lift what is due. Released addresses are due 1,000 turns later.
pub(crate) fn run(family: Family, in_use: u64, operations: u64) -> Row {
    println!("mixed {family}: {operations} operations …");
    let before = resident();
    let mut site = Site::new(family, in_use, false);
    let held = u64::try_from(site.held.len() * size_of::<(u64, std::net::IpAddr)>()).unwrap();
    let bytes = resident().saturating_sub(before).saturating_sub(held);
    let begin = Instant::now();
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
        let due = site.allocator.due(Moment(turn * 60)).next();
        if let Some(due) = due {
            site.allocator.lift(due);
            done += 1;
        }
    }
    let took = begin.elapsed();
    assert_eq!(site.allocator.in_use().count(), site.held.len(), "none lost, none doubled");
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let (ns_per_op, bytes) = (took.as_nanos() as f64 / done as f64, bytes as f64 / in_use as f64);
    Row { operation: "mixed", family, in_use, ns_per_op, bytes_per_address: Some(bytes) }
}

/// Memory of this process, in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}
