//! Everything that people and machines do to Services, pools and claims, in random order: what a Service has it keeps,
//! and in the end nothing is doubled, leaked, or pending without a reason. The storms of the chaos test break more; here
//! each edit arrives, and a controller that was killed is there again at once.

use std::time::Duration;

use windlass_e2e::{
    ControllerOptions, Lab, Signal,
    soak::{Edits, Random, Scene},
};

use crate::setup::LIMIT;

/// How many edits are made.
const EDITS: usize = 200;

#[test]
fn random_edits_move_no_address_and_leave_everything_in_order() -> anyhow::Result<()> {
    windlass_e2e::scenario("random-edits", Lab::builder().nodes(2).light(), async |lab| {
        let seed = std::env::var("WINDLASS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("random-edits: WINDLASS_SEED={seed}");
        lab.deploy_windlass(&["n1"]).await?;
        let scene = Scene::new(lab)?;
        let mut edits = Edits::new(&scene, seed);
        edits.set_the_stage().await?;
        scene
            .watched(async {
                make_all(lab, &mut edits, &mut Random(seed + 1)).await?;
                edits.tidy().await?;
                scene.await_order(LIMIT).await?;
                Ok(())
            })
            .await
    })
}

async fn make_all(lab: &Lab, edits: &mut Edits<'_>, random: &mut Random) -> anyhow::Result<()> {
    for _ in 0..EDITS {
        match random.below(20) {
            0 => trouble_controller(lab, random).await?,
            1 if random.below(3) == 0 => {
                lab.stop_api_server().await?;
                lab.start_api_server().await?;
            }
            _ => edits.make_one().await?,
        }
        tokio::time::sleep(Duration::from_millis(random.below(200))).await;
    }
    Ok(())
}

async fn trouble_controller(lab: &Lab, random: &mut Random) -> anyhow::Result<()> {
    if random.below(2) == 0 {
        lab.signal_controller("controller", Signal::SIGSTOP)?;
        tokio::time::sleep(Duration::from_millis(random.below(2000))).await;
        return lab.signal_controller("controller", Signal::SIGCONT);
    }
    lab.stop_controller("controller", Signal::SIGKILL).await?;
    lab.start_controller(ControllerOptions {
        flags: vec!["--leader-elect=false".into()],
        ..ControllerOptions::default()
    })
}
