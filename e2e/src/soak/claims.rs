//! Hands on `VirtualIP`s.

use std::{net::IpAddr, time::Duration};

use k8s_openapi::{api::core::v1::Service, jiff::Timestamp};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_api::{VirtualIP, virtual_ip_name};

use super::edits::{Edits, refused_is_fine};
use crate::Picture;

impl Edits<'_> {
    fn claims(&self) -> Api<VirtualIP> {
        Api::all(self.scene.lab.client())
    }

    /// A hand on a claim: deleted, put in quarantine, out of it, led astray, given to others, or made of nothing. What is
    /// told of who owns the address is overruled only where its Services can say so themselves.
    pub(super) async fn edit_claim(&mut self) -> anyhow::Result<()> {
        let picture = self.scene.lab.picture().await?;
        let index = self.random.index(picture.virtual_ips.len() + 1);
        let Some(claim) = picture.virtual_ips.get(index) else {
            let address: IpAddr = format!("192.0.2.{}", 100 + self.random.below(60)).parse()?;
            return self.forge(address).await;
        };
        let (name, address) = (claim.name_any(), claim.spec.address);
        let astray = || json!({"spec": {"virtualRouter": "nowhere"}});
        let edit = self.random.below(10);
        let is_harmless = matches!(edit, 0 | 1);
        let may_harm =
            || self.scene.oracle.borrow().is_intact(&picture, address) && picture.is_listed(address);
        if !is_harmless && !may_harm() {
            return Ok(());
        }
        let change = match edit {
            0 => astray(),
            1 => json!({"spec": {"pool": self.random.one_of(&["pool-a", "pool-e", "nowhere"])}}),
            2 | 3 => {
                self.scene.journal.note(&format!("{name} is deleted"));
                return refused_is_fine(self.claims().delete(&name, &DeleteParams::default()).await);
            }
            4 => self.quarantine(None),
            5 => self.quarantine(Some("nowhere")),
            6 => json!({"spec": {"quarantine": null}}),
            7 => {
                let mut owners = claim.spec.owners.clone();
                owners.truncate(1);
                json!({"spec": {"owners": owners}})
            }
            8 => json!({"spec": {"owners": self.with_another(claim, &picture)}}),
            // The API server wants one of the owners to stay: the rightful ones are taken out in a second step.
            _ => {
                let mut owners = self.with_another(claim, &picture);
                self.patch_claim(&name, json!({"spec": {"owners": owners}})).await?;
                if let Value::Array(owners) = &mut owners {
                    owners.drain(..owners.len() - 1);
                }
                json!({"spec": {"owners": owners}})
            }
        };
        self.patch_claim(&name, change).await
    }

    async fn patch_claim(&self, name: &str, change: Value) -> anyhow::Result<()> {
        self.scene.journal.note(&format!("{name}: {change}"));
        let change = Patch::Merge(change);
        refused_is_fine(self.claims().patch(name, &PatchParams::default(), &change).await)
    }

    fn quarantine(&mut self, router: Option<&str>) -> Value {
        let until = Timestamp::now() + Duration::from_secs(1 + self.random.below(8));
        let quarantine = json!({"reason": "Released", "until": until});
        match router {
            None => json!({"spec": {"quarantine": quarantine}}),
            Some(router) => json!({"spec": {"quarantine": quarantine, "virtualRouter": router}}),
        }
    }

    /// The owners of a claim, and one more at the end: a Service that is there and shows all that it has, or one that is not
    /// there. One that does not show what it has yet would be told by the hand alone what it has.
    fn with_another(&mut self, claim: &VirtualIP, picture: &Picture) -> Value {
        let mut owners = json!(claim.spec.owners);
        let reference = |service: &Service| json!({"namespace": service.namespace(), "name": service.name_any(), "uid": service.uid()});
        let index = self.random.index(2 * picture.services.len());
        let is_whole = |service: &&Service| self.scene.oracle.borrow().shows_all(service);
        let other = picture.services.get(index).filter(is_whole).map_or_else(ghost, reference);
        if let Value::Array(owners) = &mut owners {
            owners.retain(|owner| *owner != other);
            owners.push(other);
        }
        owners
    }

    /// Makes a claim for a Service that does not exist.
    async fn forge(&self, address: IpAddr) -> anyhow::Result<()> {
        let name = virtual_ip_name(address);
        self.scene.journal.note(&format!("{name} is made of nothing"));
        let forged: VirtualIP = serde_json::from_value(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP", "metadata": {"name": name},
            "spec": {"address": address, "pool": "pool-a", "owners": [ghost()]},
        }))?;
        refused_is_fine(self.claims().create(&PostParams::default(), &forged).await)
    }

    /// A claim that nobody can make sense of.
    pub(super) async fn make_nonsense(&mut self) -> anyhow::Result<()> {
        let address = format!("198.51.100.{}", self.random.below(200));
        self.scene.journal.note(&format!("{address} is claimed by nonsense"));
        let owners = json!([{"namespace": "No Namespace", "name": "-", "uid": "?"}]);
        let claim: VirtualIP = serde_json::from_value(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP", "metadata": {"name": address},
            "spec": {"address": address, "pool": "../..", "owners": owners, "virtualRouter": "nowhere"},
        }))?;
        refused_is_fine(self.claims().create(&PostParams::default(), &claim).await)
    }
}

fn ghost() -> Value {
    json!({"namespace": "default", "name": "ghost", "uid": "ghost"})
}
