//! A contest as the provider sees it: what is put right when, and an event that names the other controller.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::Api;
use kube::{Resource as _, ResourceExt as _};
use tokio::time::Instant;
use windlass_api::ServiceRef;
use windlass_ccm::events::EventKind;
use windlass_ccm::lenient::{Lenient, read};

use super::super::limited::limited;
use super::super::provider::Metal;
use super::super::request::owner;
use super::super::state::service_key;
use super::Answer;

/// Reason of the event that tells of it.
const CONTESTED: &str = "StatusContested";

impl Metal {
    /// Whether somebody else has written the Service's status, and it is to be put right at once. What is to be put right
    /// later names the Service then.
    pub(in super::super) fn is_to_be_put_right(&self, old: &Service, new: &Service) -> bool {
        let Some(holder) = owner(new) else { return false };
        let mut state = self.shared.state();
        if !state.is_forged(&holder, old, new) {
            return false;
        }
        let now = state.clock.now();
        let answer = state.contests.changed(&holder, now);
        drop(state);
        match answer {
            Answer::Now => true,
            Answer::After(pause) => {
                self.shared.changes.push_at(service_key(&holder), Instant::now() + pause);
                false
            }
            Answer::Awaited => false,
        }
    }

    /// Tells on the Service that another controller writes its status, if that is to be told: whose it is the API server
    /// knows.
    pub(in super::super) async fn tell_of_contest(&self, holder: &ServiceRef, service: &Service) {
        let is_due = {
            let mut state = self.shared.state();
            let now = state.clock.now();
            state.contests.is_to_be_told(holder, now)
        };
        if !is_due {
            return;
        }
        let api: Api<Lenient<Service>> = Api::namespaced(self.client.clone(), &holder.namespace);
        // Without an answer it is told without the name.
        let now = limited(read(api.get(&holder.name)), String::new).await.ok().and_then(Result::ok);
        let who = now.as_ref().and_then(|service| writer(service.managed_fields()));
        let who = who.map_or_else(|| "another controller".to_owned(), |who| format!("controller {who:?}"));
        let message = format!(
            "{who} writes the addresses in the status of this Service, too: they are put right after a pause that grows to \
             5 minutes. Stop that controller, or let one of them serve the Service by spec.loadBalancerClass"
        );
        tracing::warn!(service = %holder, %who, "the status is written by two controllers");
        self.events.send(service.object_ref(&()), EventKind::Warning, CONTESTED, message);
    }
}

/// Who wrote the addresses in the status last, by the name that the API server notes.
fn writer(managed: &[ManagedFieldsEntry]) -> Option<&str> {
    let wrote = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields.pointer("/f:status/f:loadBalancer").is_some())
    };
    let last = managed.iter().filter(wrote).max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    last.manager.as_deref().filter(|name| !name.is_empty() && *name != "unknown")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_one_who_wrote_the_addresses_last_is_named() {
        let entry = |manager: &str, second: u8, fields: serde_json::Value| -> ManagedFieldsEntry {
            let time = format!("2026-01-01T00:00:{second:02}Z");
            serde_json::from_value(json!({ "manager": manager, "time": time, "fieldsV1": fields }))
                .expect("an entry")
        };
        let addresses = || json!({ "f:status": { "f:loadBalancer": { "f:ingress": {} } } });
        let spec = || json!({ "f:spec": { "f:type": {} } });
        for (entries, expected) in [
            (vec![], None),
            (vec![entry("kubectl", 1, spec())], None),
            (vec![entry("kube-vip", 1, addresses()), entry("kubectl", 2, spec())], Some("kube-vip")),
            (vec![entry("first", 1, addresses()), entry("second", 2, addresses())], Some("second")),
            (vec![entry("unknown", 1, addresses())], None),
        ] {
            assert_eq!(writer(&entries), expected, "{entries:?}");
        }
    }
}
