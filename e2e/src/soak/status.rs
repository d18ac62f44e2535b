//! Hands in the status of Services.

use std::{collections::BTreeSet, net::IpAddr};

use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{
    cast::{self, STEADY},
    edits::{Edits, refused_is_fine},
};

impl Edits<'_> {
    /// Emptied, or with an address that may be another's. Of a Service that is left alone only while its claims tell what
    /// it had.
    pub(super) async fn edit_status(&mut self) -> anyhow::Result<()> {
        let key = match self.random.below(3) {
            0 => cast::loose(&mut self.random),
            _ => self.random.one_of(&STEADY).key(),
        };
        let wrote: BTreeSet<IpAddr> = match self.random.below(3) {
            0 => BTreeSet::new(),
            1 => [self.any_address()?].into(),
            _ => [self.any_address()?, self.any_address()?].into(),
        };
        let picture = self.scene.lab.picture().await?;
        {
            let mut oracle = self.scene.oracle.borrow_mut();
            let had = oracle.had(&key).cloned().unwrap_or_default();
            let mut involved = had.iter().chain(&wrote);
            if !involved.all(|address| oracle.is_intact(&picture, *address)) {
                return Ok(());
            }
            oracle.hand_comes(&key, wrote.clone());
        }
        let mut ingress: Vec<_> = wrote.iter().map(|address| json!({"ip": address})).collect();
        if self.random.once_in(4) {
            ingress.push(json!({"hostname": "example.com"}));
        }
        self.scene.journal.note(&format!("{key} shows by hand {wrote:?}"));
        let change = Patch::Merge(json!({"status": {"loadBalancer": {"ingress": ingress}}}));
        match self.services(&key).patch_status(&key.name, &PatchParams::default(), &change).await {
            Ok(service) => {
                self.scene.oracle.borrow_mut().hand_came(&service);
                Ok(())
            }
            result @ Err(_) => refused_is_fine(result),
        }
    }

    /// An address that some pool may have.
    fn any_address(&mut self) -> anyhow::Result<IpAddr> {
        let text = match self.random.below(6) {
            0 => format!("2001:db8::{}:{:x}", self.random.below(5), self.random.below(16)),
            _ => format!("192.0.2.{}", 100 + self.random.below(60)),
        };
        Ok(text.parse()?)
    }
}
