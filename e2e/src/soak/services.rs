//! Services that come, go and change.

use std::time::Duration;

use anyhow::Context as _;
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    cast::{self, Key, STEADY},
    edits::{Edits, refused_is_fine},
};
use crate::await_that;

/// Limit of the wait for the removal of a deleted Service; after it the test makes no successor.
const GONE: Duration = Duration::from_secs(5);

impl Edits<'_> {
    /// Changes one thing or two of a Service, if it is there.
    pub(super) async fn edit_service(&mut self) -> anyhow::Result<()> {
        let key = cast::loose(&mut self.random);
        let change = match self.random.below(12) {
            0..=2 => annotations(&json!({"windlass.dev/sharing-key": self.random.one_of(&["k", "k", "l"])})),
            3 => annotations(&json!({
                "windlass.dev/sharing-key": null, "windlass.dev/share-with": null, "windlass.dev/addresses": null,
            })),
            4 => annotations(&json!({
                "windlass.dev/sharing-key": "k",
                "windlass.dev/share-with": self.random.one_of(&["u", "v", "default", "u,default", "default,u,v"]),
            })),
            5 => annotations(
                &json!({"windlass.dev/addresses": format!("192.0.2.{}", 100 + self.random.below(90))}),
            ),
            6 => {
                let pool = self.random.one_of(&["pool-a", "pool-b", "pool-c", "pool-d", "quiet", "none"]);
                annotations(&json!({"windlass.dev/pool": pool}))
            }
            7 => annotations(&json!({"windlass.dev/pool": null, "windlass.dev/address-count": null})),
            8 => {
                annotations(&json!({"windlass.dev/address-count": self.random.one_of(&["1", "2", "3", "x"])}))
            }
            9 => json!({"spec": {"externalTrafficPolicy": self.random.one_of(&["Local", "Cluster"])}}),
            _ => json!({"spec": {"ports": self.ports()}}),
        };
        self.patch(&key, change).await?;
        if self.random.once_in(4) {
            let families = match self.random.below(3) {
                0 => json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}),
                1 => json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
                _ => json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
            };
            let key = cast::loose(&mut self.random);
            self.patch(&key, json!({"spec": families})).await?;
        }
        Ok(())
    }

    /// One to three ports, some of which others that share have as well.
    fn ports(&mut self) -> Value {
        let first = 80 + self.random.below(6);
        let count = 1 + self.random.below(3);
        let ports = (first..first + count).map(|port| {
            let protocol = if port % 5 == 0 { "UDP" } else { "TCP" };
            json!({"name": format!("p{port}"), "port": port, "protocol": protocol})
        });
        ports.collect()
    }

    pub(super) async fn retype(&mut self) -> anyhow::Result<()> {
        let key = cast::loose(&mut self.random);
        self.patch(&key, json!({"spec": {"type": "ClusterIP", "externalTrafficPolicy": null}})).await?;
        tokio::time::sleep(Duration::from_millis(self.random.below(100))).await;
        if self.random.below(2) == 0 {
            self.patch(&key, json!({"spec": {"type": "LoadBalancer"}})).await?;
        }
        Ok(())
    }

    /// Deletes a Service, or makes it, or both: as fast as the finalizer lets it, or without asking it.
    pub(super) async fn replace(&mut self) -> anyhow::Result<()> {
        let key = cast::loose(&mut self.random);
        let api = self.services(&key);
        let object = cast::object(&key, self.random.once_in(3), 80 + u16::try_from(self.random.below(4))?);
        let (remade, forced) = (self.random.once_in(2), self.random.once_in(3));
        if api.get_opt(&key.name).await?.is_none() {
            self.scene.journal.note(&format!("{key} is made"));
            return refused_is_fine(self.create(&key, object).await);
        }
        self.scene.journal.note(&format!("{key} is deleted, forced {forced}, and remade {remade}"));
        if forced {
            return self.force(&key, remade.then_some(object)).await;
        }
        refused_is_fine(api.delete(&key.name, &DeleteParams::default()).await)?;
        if remade {
            // (There may be no controller just now.)
            let gone = await_that("it is gone", GONE, async || {
                Ok(api.get_opt(&key.name).await?.is_none().then_some(()))
            });
            if gone.await.is_ok() {
                refused_is_fine(self.create(&key, object).await)?;
            }
        }
        Ok(())
    }

    /// Deletes a Service that is left alone without its finalizer, and makes it again under its name.
    pub(super) async fn remake(&mut self) -> anyhow::Result<()> {
        let remade: Vec<_> = STEADY.iter().filter(|steady| steady.is_remade).collect();
        let steady = self.random.one_of(&remade);
        let key = steady.key();
        let picture = self.scene.lab.picture().await?;
        {
            let mut oracle = self.scene.oracle.borrow_mut();
            let had = oracle.had(&key).cloned().unwrap_or_default();
            if !had.iter().all(|address| oracle.is_intact(&picture, *address)) {
                return Ok(());
            }
            oracle.hand_comes(&key, [].into());
        }
        self.scene.journal.note(&format!("{key} is made anew"));
        self.force(&key, Some(steady.object())).await
    }

    /// Deletes the Service without its finalizer. Nothing is left half done where the API server is away.
    async fn force(&self, key: &Key, successor: Option<Value>) -> anyhow::Result<()> {
        let api = self.services(key);
        let Some(old) = api.get_opt(&key.name).await? else { return Ok(()) };
        let stripped = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        await_that(&format!("{key} is gone"), super::LIMIT, async || match api.get_opt(&key.name).await? {
            Some(there) if there.uid() == old.uid() => {
                refused_is_fine(api.delete(&key.name, &DeleteParams::default()).await)?;
                refused_is_fine(api.patch(&key.name, &PatchParams::default(), &stripped).await)?;
                Ok(None)
            }
            Some(_) | None => Ok(Some(())),
        })
        .await?;
        let Some(object) = successor else { return Ok(()) };
        let made = await_that(&format!("{key} is made anew"), super::LIMIT, async || {
            match self.create(key, object.clone()).await {
                Ok(made) => Ok(Some(made)),
                // The answer to an earlier call was lost.
                Err(error) if error.to_string().contains("already exists") => {
                    Ok(Some(api.get(&key.name).await?))
                }
                Err(error) => Err(error).context("making it"),
            }
        })
        .await?;
        self.scene.journal.note(&format!("{key} has UID {}", made.uid().unwrap_or_default()));
        self.scene.oracle.borrow_mut().hand_came(&made);
        Ok(())
    }
}

fn annotations(change: &Value) -> Value {
    json!({"metadata": {"annotations": change}})
}
