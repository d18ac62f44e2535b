//! Controllers that die while they work, and their successors.

use std::pin::pin;

use super::apiserver::ApiServer;

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
