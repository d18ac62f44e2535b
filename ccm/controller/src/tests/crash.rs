//! The controller dies at every single write, before it arrives and after its answer is lost, and another one goes on from
//! what the cluster shows.

use windlass_ccm::testing::faults::Disconnect;
use windlass_ccm::testing::succession::at_every_write;

use super::rig::Rig;
use super::scenarios::{Scenario, all};

/// No scenario has as many writes.
const MOST_WRITES: usize = 60;

async fn dies_at(scenario: &Scenario, at: usize, cut: Disconnect) -> bool {
    let what = format!("{}; the controller dies at write {at} ({cut:?})", scenario.name);
    let mut rig = Rig::new(&scenario.pools);
    let first = rig.controller();
    (scenario.before)(&mut rig);
    rig.settle().await;
    rig.cut(&first, at, cut);
    (scenario.happens)(&mut rig);
    let was_cut = rig.until_cut_or_settled(first.number).await;
    let controller = if was_cut {
        first.kill().await;
        let second = rig.controller();
        rig.settle().await;
        second
    } else {
        first
    };
    rig.check(&scenario.counts, &what);
    (scenario.after)(&rig);
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing(&what).await;
    was_cut
}

// shows: allocation 68 to 70, 73, 121, A-01
#[tokio::test(start_paused = true)]
async fn nothing_is_doubled_leaked_or_lost_whenever_the_controller_dies() {
    for scenario in all() {
        let writes = at_every_write(async |at, cut| {
            assert!(at < MOST_WRITES, "{}: it never ends", scenario.name);
            dies_at(&scenario, at, cut).await
        });
        for at in writes.await {
            assert!(at > 0, "{}: nothing was written", scenario.name);
        }
    }
}
