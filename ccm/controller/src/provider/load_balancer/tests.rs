//! The life of an address, against an API server in memory.

use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_api::{Announcement, NodeNetwork, VirtualIPPool, VirtualRouter};
use windlass_ccm::events::Recorder;
use windlass_ccm::testing::apiserver::ApiServer as Api;
use windlass_ccm::testing::faults::FaultRates;

use super::*;

fn object<K: serde::de::DeserializeOwned>(body: Value) -> K {
    serde_json::from_value(body).expect("an object")
}

fn service(name: &str, annotations: &Value, status: Option<&str>) -> Service {
    let ingress: Vec<_> = status.iter().map(|ip| json!({ "ip": ip, "ipMode": "VIP" })).collect();
    object(json!({
        "metadata": { "namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
                      "annotations": annotations, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "type": "LoadBalancer" },
        "status": { "loadBalancer": { "ingress": ingress } },
    }))
}

fn plain(name: &str) -> Service {
    service(name, &json!({}), None)
}

/// A provider that has seen every list; the pool `p` holds `range`.
fn provider(api: &Api, range: &str, vips: Vec<VirtualIP>) -> Provider {
    let shared = Arc::new(SharedState::default());
    let pool = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIPPool",
        "metadata": { "name": "p", "uid": "p", "resourceVersion": "1" }, "spec": { "addresses": [range], "quarantineSeconds": 0 },
    });
    shared.list::<VirtualIPPool>(vec![object(pool)]);
    shared.list(vips);
    shared.list::<VirtualRouter>(vec![]);
    shared.list::<NodeNetwork>(vec![]);
    shared.list::<Node>(vec![]);
    shared.list::<Namespace>(vec![]);
    shared.list::<EndpointSlice>(vec![]);
    shared.list::<Announcement>(vec![]);
    shared.list::<Service>(vec![]);
    over(api, shared)
}

/// One more over the same cluster.
fn another(api: &Api) -> Provider {
    provider(api, "192.0.2.1-192.0.2.9", vec![])
}

fn over(api: &Api, shared: Arc<SharedState>) -> Provider {
    let (events, _) = EventSink::new(Recorder::new(api.client(), "test"), CancellationToken::new());
    Provider::new(api.client(), shared, events)
}

/// `address owner` of every object that is not in quarantine.
fn claims(api: &Api) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let vips = api.list("virtualips");
    let in_use = |vip: &&Value| vip["spec"]["quarantine"].is_null();
    vips.iter()
        .filter(in_use)
        .map(|vip| (text(&vip["spec"]["address"]), text(&vip["spec"]["owners"][0]["name"])))
        .collect()
}

/// The writes so far, and forgets them.
fn writes(api: &Api) -> Vec<String> {
    let name = |write: &windlass_ccm::testing::apiserver::RecordedWrite| match write.body["metadata"]["name"]
        .as_str()
    {
        Some(name) => name.to_owned(),
        None => write.path.trim_start_matches("virtualips//").to_owned(),
    };
    api.take_writes().iter().map(|write| format!("{} {}", write.verb, name(write))).collect()
}

/// The answer to what happens next is lost, although it is carried out.
async fn with_a_lost_answer<T>(api: &Api, call: impl Future<Output = T>) -> T {
    api.set_fault_rates(FaultRates { lost: 100, ..FaultRates::default() }, 1);
    let answer = call.await;
    api.set_fault_rates(FaultRates::default(), 1);
    answer
}

async fn ensure(provider: &Provider, service: &Service) -> Result<Ensured, ProviderError> {
    provider.ensure("kubernetes", service, &[]).await
}

fn rejected(reason: &'static str, message: &str) -> Result<Ensured, ProviderError> {
    Err(ProviderError::Rejected { reason, message: message.to_owned() })
}

/// The VIP with the condition `Announced`, as an agent or the planner would write it.
fn told(provider: &Provider, api: &Api, address: &str, status: &str, message: &str) {
    let address: IpAddr = address.parse().expect(address);
    let key = format!("virtualips//{}", windlass_api::virtual_ip_name(address));
    let (router, reason) = if status == "True" { (Some("v4-r"), "Active") } else { (None, "NoSegment") };
    api.edit(
        &key,
        &json!({ "spec": { "virtualRouter": router }, "status": { "conditions": [
        { "type": "Announced", "status": status, "reason": reason, "message": message,
          "lastTransitionTime": "2026-01-01T00:00:00Z" } ] } }),
    );
    provider.shared.learn::<VirtualIP>(object(api.get(&key).expect("a VIP")));
}

fn addresses(ensured: Result<Ensured, ProviderError>) -> Vec<String> {
    match ensured.expect("ensured") {
        Ensured::Ready { status, .. } => status
            .ingress
            .into_iter()
            .flatten()
            .map(|ingress| {
                assert_eq!(ingress.ip_mode.as_deref(), Some("VIP"));
                ingress.ip.expect("an address")
            })
            .collect(),
        Ensured::Pending { message, .. } => panic!("pending: {message}"),
        Ensured::Refused { message, .. } => panic!("refused: {message}"),
    }
}

#[tokio::test]
async fn an_address_is_claimed_at_once_and_ready_when_a_node_announces_it() {
    let api = Api::default();
    let provider = provider(&api, "192.0.2.1-192.0.2.9", vec![]);
    let service = plain("web");
    let message = "waiting for a virtual router for 192.0.2.1".to_owned();
    let waiting = Ensured::Pending { works: false, reason: "NotAnnounced", message };
    assert_eq!(ensure(&provider, &service).await, Ok(waiting.clone()));
    assert_eq!(claims(&api), [("192.0.2.1".into(), "web".into())]);
    assert_eq!(ensure(&provider, &service).await, Ok(waiting));
    told(&provider, &api, "192.0.2.1", "True", "");
    assert_eq!(addresses(ensure(&provider, &service).await), ["192.0.2.1"]);
    assert_eq!(writes(&api), ["create 192.0.2.1"], "and nothing more");
}

#[tokio::test]
async fn an_address_in_the_status_stays_there_and_works_as_long_as_it_is_announced() {
    let api = Api::default();
    let vip = {
        let first = provider(&api, "192.0.2.1-192.0.2.9", vec![]);
        ensure(&first, &plain("web")).await.expect("claimed");
        (**first.shared.state().stores.vip("192.0.2.1".parse().expect("address")).expect("a VIP")).clone()
    };
    writes(&api);
    let restarted = provider(&api, "192.0.2.1-192.0.2.9", vec![vip]);
    let satisfied = service("web", &json!({}), Some("192.0.2.1"));
    // Nobody has announced it yet.
    assert!(matches!(ensure(&restarted, &satisfied).await, Ok(Ensured::Pending { works: false, .. })));
    for (announced, works) in [("True", true), ("False", false), ("True", true)] {
        told(&restarted, &api, "192.0.2.1", announced, "no subnet");
        let answer = ensure(&restarted, &satisfied).await;
        assert!(matches!(answer, Ok(Ensured::Ready { works: is, .. }) if is == works), "{answer:?}");
        assert_eq!(addresses(answer), ["192.0.2.1"]);
    }
    assert!(writes(&api).is_empty(), "a restart writes nothing");
}

#[tokio::test]
async fn an_address_that_another_controller_claimed_is_left_to_it() {
    let api = Api::default();
    let (one, other) =
        (provider(&api, "192.0.2.1-192.0.2.2", vec![]), provider(&api, "192.0.2.1-192.0.2.2", vec![]));
    ensure(&one, &plain("a")).await.expect("claimed");
    // `other` has not heard of it.
    ensure(&other, &plain("b")).await.expect("claimed");
    assert_eq!(claims(&api), [("192.0.2.1".into(), "a".into()), ("192.0.2.2".into(), "b".into())]);
    let refused =
        ensure(&other, &service("c", &json!({ "windlass.dev/addresses": "192.0.2.1" }), None)).await;
    let message = "address 192.0.2.1 is held by Service ns/a: ask for another address, free this one, or give both \
                   Services one sharing key";
    assert_eq!(refused, rejected("AddressInUse", message));
}

// shows: allocation 111
#[tokio::test]
async fn two_controllers_at_once_give_no_address_twice() {
    let api = Api::default();
    let providers = [(); 2].map(|()| provider(&api, "192.0.2.0/26", vec![]));
    let names: Vec<String> = (0..30).map(|number| format!("s{number}")).collect();
    let services: Vec<Service> = names.iter().map(|name| plain(name)).collect();
    // Each looks at the Services in its own order, all at the same time.
    let calls = providers.iter().enumerate().flat_map(|(which, provider)| {
        let services = &services;
        (0..services.len()).map(move |index| {
            ensure(provider, &services[if which == 0 { index } else { services.len() - 1 - index }])
        })
    });
    for ensured in join_all(calls).await {
        ensured.expect("served");
    }
    let mut owners = std::collections::BTreeMap::<String, Vec<String>>::new();
    for (address, owner) in claims(&api) {
        owners.entry(owner).or_default().push(address);
    }
    assert_eq!(owners.len(), names.len(), "every Service has one: {owners:?}");
    // A Service that got one from each controller keeps one, once both have heard of both.
    let objects: Vec<VirtualIP> = api.list("virtualips").into_iter().map(object).collect();
    for provider in &providers {
        for vip in &objects {
            provider.shared.learn(vip.clone());
        }
    }
    for (address, _) in claims(&api) {
        told(&providers[0], &api, &address, "True", "");
    }
    for service in &services {
        assert_eq!(addresses(ensure(&providers[0], service).await).len(), 1);
    }
    let mut left: Vec<_> = claims(&api).into_iter().map(|(_, owner)| owner).collect();
    left.sort();
    let mut expected = names;
    expected.sort();
    assert_eq!(left, expected);
}

#[tokio::test]
async fn a_claim_whose_answer_was_lost_is_found_again_and_no_second_address_taken() {
    let api = Api::default();
    let provider = provider(&api, "192.0.2.1-192.0.2.9", vec![]);
    let lost = with_a_lost_answer(&api, Box::pin(ensure(&provider, &plain("web")))).await;
    let error = lost.expect_err("the answer is lost").to_string();
    assert!(error.starts_with("cannot claim 192.0.2.1: creating VirtualIP \"192.0.2.1\": "), "{error}");
    ensure(&provider, &plain("web")).await.expect("found");
    assert_eq!(claims(&api), [("192.0.2.1".into(), "web".into())]);
    // Lost, and the Service deleted before it was looked for: nothing stays behind.
    assert!(with_a_lost_answer(&api, Box::pin(ensure(&provider, &plain("gone")))).await.is_err());
    provider.ensure_deleted("kubernetes", &plain("gone")).await.expect("deleted");
    assert_eq!(claims(&api), [("192.0.2.1".into(), "web".into())]);
}

#[tokio::test]
async fn an_exhausted_pool_is_said_and_a_freed_address_names_who_waits() {
    let api = Api::default();
    let provider = provider(&api, "192.0.2.1-192.0.2.1", vec![]);
    ensure(&provider, &plain("a")).await.expect("claimed");
    let message = "no free IPv4 address; pool \"p\" has no free address (its one is in use): free an address or add \
                   some to a pool";
    assert_eq!(ensure(&provider, &plain("b")).await, rejected("NoFreeAddress", message));
    provider.ensure_deleted("kubernetes", &plain("a")).await.expect("deleted");
    let named = futures::StreamExt::next(&mut provider.changes()).await;
    assert_eq!(named, Some(ServiceKey { namespace: "ns".into(), name: "b".into() }));
    ensure(&provider, &plain("b")).await.expect("claimed");
    assert_eq!(writes(&api), ["create 192.0.2.1", "delete 192.0.2.1", "create 192.0.2.1"]);
}

#[tokio::test]
async fn what_is_deleted_is_ones_own_and_deleting_again_is_no_error() {
    let api = Api::default();
    let provider = provider(&api, "192.0.2.1-192.0.2.9", vec![]);
    ensure(&provider, &plain("a")).await.expect("claimed");
    // Meanwhile a's object was deleted and the name taken by b, of which nothing was heard.
    api.delete("virtualips//192.0.2.1");
    let other = another(&api);
    ensure(&other, &plain("b")).await.expect("claimed");
    for _ in 0..2 {
        provider.ensure_deleted("kubernetes", &plain("a")).await.expect("deleted");
        assert_eq!(claims(&api), [("192.0.2.1".into(), "b".into())]);
    }
    assert_eq!(provider.get("kubernetes", &plain("a")).await, Ok(None));
    other.ensure_deleted("kubernetes", &plain("b")).await.expect("deleted");
    assert!(claims(&api).is_empty());
}

#[tokio::test]
async fn a_service_made_anew_under_the_same_name_takes_the_address_of_its_former_self_over() {
    let api = Api::default();
    let provider = provider(&api, "192.0.2.1-192.0.2.9", vec![]);
    let before = plain("web");
    let mut after = plain("web");
    after.metadata.uid = Some("uid-other".into());
    ensure(&provider, &before).await.expect("claimed");
    ensure(&provider, &after).await.expect("claimed");
    provider.ensure_deleted("kubernetes", &before).await.expect("deleted");
    assert_eq!(claims(&api), [("192.0.2.1".into(), "web".into())]);
    assert!(provider.get("kubernetes", &after).await.expect("known").is_some());
}

// shows: allocation 61
#[tokio::test]
async fn a_changed_wish_withdraws_the_old_address_only_when_the_new_one_works() {
    let api = Api::default();
    let provider = provider(&api, "192.0.2.1-192.0.2.9", vec![]);
    ensure(&provider, &plain("web")).await.expect("claimed");
    told(&provider, &api, "192.0.2.1", "True", "");
    let wish = service("web", &json!({ "windlass.dev/addresses": "192.0.2.5" }), Some("192.0.2.1"));
    assert!(matches!(ensure(&provider, &wish).await, Ok(Ensured::Pending { works: true, .. })));
    assert_eq!(claims(&api).len(), 2, "the old one still serves");
    told(&provider, &api, "192.0.2.5", "False", "no subnet");
    let blocked = ProviderError::Blocked { reason: "NotAnnounced", message: "no subnet".into() };
    assert_eq!(ensure(&provider, &wish).await, Err(blocked), "clients reach the old one");
    told(&provider, &api, "192.0.2.5", "True", "");
    assert_eq!(addresses(ensure(&provider, &wish).await), ["192.0.2.5"]);
    assert_eq!(claims(&api).len(), 2, "clients are still told to use the old one");
    let written = service("web", &json!({ "windlass.dev/addresses": "192.0.2.5" }), Some("192.0.2.5"));
    assert_eq!(addresses(ensure(&provider, &written).await), ["192.0.2.5"]);
    assert_eq!(claims(&api), [("192.0.2.5".into(), "web".into())]);
}

#[tokio::test]
async fn what_cannot_be_announced_or_served_is_refused_with_its_reason() {
    let api = Api::default();
    let provider = provider(&api, "192.0.2.1-192.0.2.9", vec![]);
    ensure(&provider, &plain("web")).await.expect("claimed");
    told(&provider, &api, "192.0.2.1", "False", "no subnet");
    assert_eq!(ensure(&provider, &plain("web")).await, rejected("NotAnnounced", "no subnet"));
    writes(&api);
    let mut six = plain("six");
    six.spec.get_or_insert_default().ip_families = Some(vec!["IPv6".into()]);
    assert!(matches!(
        ensure(&provider, &six).await,
        Err(ProviderError::Rejected { reason: "NoFreeAddress", .. })
    ));
    six.spec.get_or_insert_default().load_balancer_ip = Some("192.0.2.1".into());
    assert!(matches!(
        ensure(&provider, &six).await,
        Err(ProviderError::Rejected { reason: "InvalidRequest", .. })
    ));
    assert!(writes(&api).is_empty());
}

// shows: allocation 79; field-reports F-01
#[tokio::test]
async fn nothing_is_given_or_taken_before_every_list_is_complete() {
    let api = Api::default();
    let provider = over(&api, Arc::new(SharedState::default()));
    let service = plain("web");
    let retry = |error: ProviderError| matches!(error, ProviderError::RetryAfter { .. });
    assert!(ensure(&provider, &service).await.is_err_and(retry));
    assert!(provider.get("kubernetes", &service).await.is_err_and(retry));
    assert!(provider.ensure_deleted("kubernetes", &service).await.is_err_and(retry));
    assert!(writes(&api).is_empty());
}

#[tokio::test]
async fn status_that_another_hand_has_written_concerns_us_and_our_own_does_not() {
    let api = Api::default();
    let provider = provider(&api, "192.0.2.16/30", vec![]);
    drop(provider.ensure("c", &plain("web"), &[]).await);
    let shows = |address| service("web", &json!({}), address);
    let held = "192.0.2.16";
    assert_eq!(claims(&api), [(held.to_owned(), "web".to_owned())]);
    for (old, new, affected, what) in [
        (None, Some(held), false, "its own address is shown"),
        (Some(held), None, true, "its own address is hidden"),
        (Some(held), Some("192.0.2.17"), true, "it is replaced"),
        (None, Some("192.0.2.17"), true, "an address of the pool is added"),
        (None, Some("198.51.100.1"), false, "a foreign address is added"),
        (Some("192.0.2.17"), None, false, "what is not its own is hidden"),
    ] {
        let after = provider.requeue_after(&shows(old), &shows(new));
        assert_eq!(after, affected.then_some(Duration::ZERO), "{what}");
    }
}
