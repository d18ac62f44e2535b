//! Services that name their pool, and pools that become others: only the Service's own word moves it.

use serde_json::{Value, json};

use super::rig::{Rig, pool};
use super::scenarios::annotated;

fn names(pool: Option<&str>) -> Value {
    annotated(&json!({ "windlass.dev/pool": pool }))
}

fn set(rig: &Rig, name: &str, addresses: &[&str]) {
    rig.api.edit(&format!("virtualippools//{name}"), &json!({ "spec": { "addresses": addresses } }));
}

type Story = (&'static str, &'static [fn(&Rig)]);

/// What is done to the pool `pa`, 192.0.2.16/29, step by step; afterwards each address of it is in another pool, and `pa` has
/// free ones.
const STORIES: [Story; 3] = [
    (
        "split",
        &[
            |rig| rig.api.put(pool("pb", &["192.0.2.16/30"], &json!({}))),
            |rig| set(rig, "pa", &["192.0.2.20/30"]),
        ],
    ),
    (
        "its range lent to another",
        &[
            |rig| set(rig, "pa", &["192.0.2.20/30"]),
            |rig| rig.api.put(pool("pb", &["192.0.2.16/30"], &json!({ "autoAssign": false }))),
        ],
    ),
    (
        "renamed, and its name given to another",
        &[
            |rig| rig.api.delete("virtualippools//pa"),
            |rig| rig.api.put(pool("pz", &["192.0.2.16/29"], &json!({}))),
            |rig| {
                let mut anew = pool("pa", &["192.0.2.32/29"], &json!({}));
                anew["metadata"]["uid"] = json!("another");
                rig.api.put(anew);
            },
        ],
    ),
];

#[tokio::test(start_paused = true)]
async fn whatever_becomes_of_the_pool_that_a_service_names_it_stays() {
    // At each step the controller runs, or is started again after it, or is away from the first to the last.
    for away in ["never", "between", "during"] {
        for (story, steps) in STORIES {
            let mut rig = Rig::new(&[pool("pa", &["192.0.2.16/29"], &json!({}))]);
            rig.create("a", &names(Some("pa")));
            rig.create(
                "two",
                &annotated(&json!({ "windlass.dev/pool": "pa", "windlass.dev/address-count": "2" })),
            );
            let mut controller = Some(rig.controller());
            rig.settle().await;
            let had = ["a", "two"].map(|name| rig.shown(name));
            for step in steps {
                if away != "never"
                    && let Some(running) = controller.take()
                {
                    running.kill().await;
                }
                step(&rig);
                if away != "during" {
                    controller = Some(controller.unwrap_or_else(|| rig.controller()));
                    rig.settle().await;
                    let shown = ["a", "two"].map(|name| rig.shown(name));
                    assert_eq!(shown, had, "{story}, away {away}\n{}", rig.objects());
                }
            }
            let controller = controller.unwrap_or_else(|| rig.controller());
            rig.settle().await;
            assert_eq!(
                ["a", "two"].map(|name| rig.shown(name)),
                had,
                "{story}, away {away}\n{}",
                rig.objects()
            );
            assert_eq!(rig.reason("a"), "True AddressInOtherPool", "{story}, away {away}");
            controller.kill().await;
            rig.check_that_a_restart_writes_nothing(story).await;
            // A claim that is deleted is made again as it was.
            rig.api.delete(&format!("virtualips//{}", had[0][0]));
            let controller = rig.controller();
            rig.settle().await;
            controller.kill().await;
            let controller = rig.controller();
            rig.settle().await;
            assert_eq!(rig.shown("a"), had[0], "{story}, away {away}: its claim was deleted");
            // Its own word is followed: another pool and back.
            rig.api.put(pool("other", &["192.0.2.64/30"], &json!({})));
            rig.edit("a", &names(Some("other")));
            rig.settle().await;
            assert_eq!(rig.shown("a"), ["192.0.2.64"], "{story}: it names another pool");
            rig.edit("a", &names(Some("pa")));
            rig.settle().await;
            let back = rig.shown("a").concat();
            assert!(
                back != had[0][0] && back != "192.0.2.64",
                "{story}: {back} is of the pool pa as it is now"
            );
            assert_eq!(rig.reason("a"), "True Allocated");
            controller.kill().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_that_was_said_while_no_controller_ran_is_followed() {
    let mut rig =
        Rig::new(&[pool("pa", &["192.0.2.16/29"], &json!({})), pool("pb", &["192.0.2.32/29"], &json!({}))]);
    rig.create("a", &names(Some("pa")));
    let controller = rig.controller();
    rig.settle().await;
    controller.kill().await;
    rig.edit("a", &names(Some("pb")));
    let controller = rig.controller();
    rig.settle().await;
    assert_eq!(rig.shown("a"), ["192.0.2.32"]);
    rig.edit("a", &names(None));
    rig.settle().await;
    assert_eq!(rig.shown("a"), ["192.0.2.32"], "it names none: what it has will do");
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("followed").await;
}
