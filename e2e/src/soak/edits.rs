//! Everything that people and machines do to Services, pools and claims, in random order.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    LIMIT, STEADY, Scene,
    cast::{Key, TENANTS},
    random::Random,
};
use crate::{Hopeless, await_that, shown};

/// Makes edits, each of them of one kind or another.
pub struct Edits<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) random: Random,
}

impl<'a> Edits<'a> {
    /// Makes edits that follow from `seed`.
    pub fn new(scene: &'a Scene<'a>, seed: u64) -> Self {
        Self { scene, random: Random(seed) }
    }

    /// Makes pools and the Services that will be left alone, and waits until they are served.
    ///
    /// # Errors
    /// What is not served.
    pub async fn set_the_stage(&mut self) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.scene.lab.client());
        for name in TENANTS {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let namespace: Namespace = serde_json::from_value(namespace)?;
            namespaces.create(&PostParams::default(), &namespace).await?;
        }
        self.make_quiet_pool().await?;
        self.deal_pools(true).await?;
        for steady in &STEADY {
            let key = steady.key();
            self.create(&key, steady.object()).await.with_context(|| format!("making {key}"))?;
            if let Some(address) = steady.inherits {
                let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
                let api = self.services(&key);
                api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(status)).await?;
                continue;
            }
            await_that(&format!("{key} is served"), LIMIT, async || {
                let now = shown(&self.services(&key).get(&key.name).await?);
                ensure!(!now.is_empty(), "it shows no address");
                Ok(Some(()))
            })
            .await?;
        }
        tokio::time::sleep(Duration::from_millis(self.random.below(2000))).await;
        self.make_late_pool().await?;
        self.scene.lab.await_order(LIMIT).await?;
        self.scene.remember().await
    }

    /// Edits that the API server may or may not take, until the storm is over.
    pub(super) async fn make_until_over(&mut self) {
        while !self.scene.is_over() {
            if let Err(error) = self.make_one().await {
                self.scene.journal.note(&format!("  it was not taken: {error:#}"));
            }
            tokio::time::sleep(Duration::from_millis(self.random.below(200))).await;
        }
    }

    /// One edit of an object, among many kinds.
    ///
    /// # Errors
    /// Errors of the API server, except 404, 409 and 422: the object of the edit is gone or has changed, or the edit is invalid.
    pub async fn make_one(&mut self) -> anyhow::Result<()> {
        let kind = match self.random.below(32) {
            0..=7 if !self.may_unlist().await? => return Ok(()),
            0 | 1 => self.deal_pools(false).await.map(|()| "pools dealt"),
            2..=7 => self.edit_pool().await,
            8..=13 => self.edit_service().await.map(|()| "Service edited"),
            14 => self.retype().await.map(|()| "type changed"),
            15..=18 => self.replace().await.map(|()| "Service replaced"),
            19 => self.remake().await.map(|()| "Service made anew"),
            20..=26 => self.edit_claim().await.map(|()| "claim edited"),
            27 => self.make_nonsense().await.map(|()| "nonsense claimed"),
            _ => self.edit_status().await.map(|()| "status edited"),
        }?;
        self.scene.journal.count(kind);
        Ok(())
    }

    /// Deals pools that do not overlap, once that is fair: those that do count otherwise than the invariants do.
    ///
    /// # Errors
    /// Errors of the API server, and Services whose claims were not put right.
    pub async fn tidy(&mut self) -> anyhow::Result<()> {
        await_that("every claim is put right", super::CALM, async || {
            let oracle = &self.scene.oracle;
            oracle.borrow().verdict().context(Hopeless)?;
            let picture = self.scene.lab.picture().await?;
            let displaced = oracle.borrow().displaced(&picture.services);
            ensure!(oracle.borrow().is_claimed(&picture), "displaced: {}", displaced.join("; "));
            Ok(Some(()))
        })
        .await?;
        self.deal_pools(false).await
    }

    /// Returns true if pools may be edited, see [`super::Oracle::is_claimed`].
    async fn may_unlist(&self) -> anyhow::Result<bool> {
        let picture = self.scene.lab.picture().await?;
        Ok(self.scene.oracle.borrow().is_claimed(&picture))
    }

    pub(super) fn services(&self, key: &Key) -> Api<Service> {
        Api::namespaced(self.scene.lab.client(), &key.namespace)
    }

    pub(super) async fn create(&self, key: &Key, object: Value) -> kube::Result<Service> {
        let service = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
        self.services(key).create(&PostParams::default(), &service).await
    }

    /// Changes a Service, if it is there.
    pub(super) async fn patch(&self, key: &Key, change: Value) -> anyhow::Result<()> {
        self.scene.journal.note(&format!("{key}: {change}"));
        let api = self.services(key);
        match api.patch(&key.name, &PatchParams::default(), &Patch::Merge(change)).await {
            // The watch may miss on which terms it was ready to share.
            Ok(service) => self.scene.oracle.borrow_mut().learn(&service),
            result @ Err(_) => refused_is_fine(result)?,
        }
        Ok(())
    }
}

/// Edits of what is not there, or may not be so, are part of life.
pub(super) fn refused_is_fine<T>(result: kube::Result<T>) -> anyhow::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => Ok(()),
        result => Ok(result.map(drop)?),
    }
}
