//! Controllers that die in the middle of a life, and those that come after them.

use std::pin::pin;

use super::apiserver::ApiServer;

/// Lives `life`. Once the client of this number is cut off, `heir` is called, once; returns what it made.
pub async fn outlive<H>(
    api: &ApiServer,
    client: u64,
    life: impl Future<Output = ()>,
    heir: impl FnOnce() -> H,
) -> Option<H> {
    let mut life = pin!(life);
    let mut to_come = Some(heir);
    let mut came = None;
    loop {
        tokio::select! {
            () = &mut life => return came,
            () = api.changed(), if to_come.is_some() => {
                if api.is_cut_off(client) {
                    came = to_come.take().map(|heir| heir());
                }
            }
        }
    }
}
