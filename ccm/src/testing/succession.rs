//! Controllers that die while they work, and their successors.

use std::pin::pin;

use super::apiserver::ApiServer;
use super::faults::Disconnect;

/// Runs `work` to its end. Once the client of this number is cut off, calls `successor`, once; returns what that made.
pub async fn with_successor<H>(
    api: &ApiServer,
    client: u64,
    work: impl Future<Output = ()>,
    successor: impl FnOnce() -> H,
) -> Option<H> {
    let mut work = pin!(work);
    let mut to_come = Some(successor);
    let mut came = None;
    loop {
        tokio::select! {
            () = &mut work => return came,
            () = api.changed(), if to_come.is_some() => {
                if api.is_cut_off(client) {
                    came = to_come.take().map(|successor| successor());
                }
            }
        }
    }
}

/// Calls `dies_at` with a death at each write, one after the other, before and after the write is carried out; it returns true if there was
/// such a write. Returns the numbers of writes.
pub async fn at_every_write(dies_at: impl AsyncFn(usize, Disconnect) -> bool) -> [usize; 2] {
    let mut writes = [0; 2];
    for (cut, at) in [Disconnect::Before, Disconnect::After].into_iter().zip(&mut writes) {
        while dies_at(*at, cut).await {
            *at += 1;
        }
    }
    writes
}
