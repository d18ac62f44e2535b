//! Turns of tests with labs, so that none fails for lack of time. Two processors run three labs at once, two of them with kubelets
//! or more than one API server at most.

use std::{
    cell::Cell,
    num::NonZero,
    sync::{Arc, LazyLock},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{builder::LabBuilder, wait::await_that};

static TURNS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(all())));

/// Returns the sum of the turns that are taken at once: three and a half for each processor.
fn all() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get) * 7 / 2
}

thread_local! {
    /// The turn of the lab of this thread; `None`: it waits, or is no test's.
    static TURN: Cell<Option<OwnedSemaphorePermit>> = const { Cell::new(None) };
}

/// Waits, without a runtime, for the turn of so many labs of this kind.
pub(crate) fn wait_for(labs: u8, lab: &LabBuilder) -> anyhow::Result<OwnedSemaphorePermit> {
    let size = if lab.light && lab.control_plane_nodes <= 1 { 2 } else { 3 };
    let size = (size * usize::from(labs)).min(all());
    tokio::runtime::Builder::new_current_thread().build()?.block_on(take(size))
}

async fn take(size: usize) -> anyhow::Result<OwnedSemaphorePermit> {
    Ok(Arc::clone(&TURNS).acquire_many_owned(size.try_into()?).await?)
}

/// Makes it the turn of the lab of this thread, with which it ends.
pub(crate) fn keep(turn: OwnedSemaphorePermit) {
    TURN.set(Some(turn));
}

/// Waits as [`await_that`] does, for what by its nature takes long and costs no processor time, as the end of a period. Another test
/// has the turn of this one meanwhile.
pub async fn await_idly<T>(
    what: &str,
    limit: Duration,
    check: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let size = TURN.take().map(|turn| turn.num_permits());
    let result = await_that(what, limit, check).await;
    if let Some(size) = size {
        keep(take(size).await?);
    }
    result
}
