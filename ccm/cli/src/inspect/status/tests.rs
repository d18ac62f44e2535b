use std::time::Duration;

use serde_json::json;

use super::*;
use crate::inspect::scene::{ago, healthy, now, object, router, service, vip};

#[test]
fn one_screen_says_first_what_is_wrong_and_then_what_there_is() {
    let overview = Overview::of(&healthy());
    let text = overview.text(false, now());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[2], "Nothing is wrong.");
    for words in [
        "n1_0123 leads since 120m (kube-system/cloud-controller-manager)",
        "3 of 3 nodes have reported, version 0.1.0 on 3",
        "1 of type LoadBalancer: 1 served, none waits",
        "1: 1 announced",
        "1: 1 have an Active node",
        "default   156        100         61%",
        "n1   1 addresses   Active in 1 virtual routers",
    ] {
        assert!(text.contains(words), "{words:?} is not in:\n{text}");
    }
    assert_eq!(overview.exit_code(), ExitCode::SUCCESS);

    let mut snapshot = healthy();
    snapshot.services.objects.push(object(service("b", "", "False", "NoFreeAddress", "none is left")));
    let overview = Overview::of(&snapshot);
    let text = overview.text(false, now());
    assert!(
        text.contains(
            "1 errors, 0 warnings\n  error Service default/b NoFreeAddress: none is left\n    do: add"
        ),
        "{text}"
    );
    assert!(text.contains("2 of type LoadBalancer: 1 served, 1 NoFreeAddress"), "{text}");
    assert_eq!(overview.exit_code(), ExitCode::from(PROBLEMS));
}

#[test]
fn of_many_problems_of_one_kind_a_few_are_told_unless_all_are_wanted() {
    let mut snapshot = healthy();
    for index in 0..40 {
        let name = format!("s{index:02}");
        snapshot.services.objects.push(object(service(&name, "", "False", "NoFreeAddress", "none is left")));
    }
    let overview = Overview::of(&snapshot);
    let text = overview.text(false, now());
    assert!(text.contains("and 37 more Services with NoFreeAddress"), "{text}");
    assert!(text.lines().count() < 40, "it is one screen:\n{text}");
    assert!(overview.text(true, now()).contains("default/s39"));
    assert_eq!(json!(overview)["problems"].as_array().unwrap().len(), 40);
}

#[test]
fn moves_of_the_last_hour_are_told_the_latest_first() {
    let mut snapshot = healthy();
    snapshot.routers.objects.clear();
    for (name, since, transitions) in
        [("first", 600, 1), ("old", 4000, 5), ("moved", 1200, 2), ("again", 60, 9)]
    {
        let mut router = router(name);
        router["status"]["activeSince"] = json!(ago(since));
        router["status"]["transitions"] = json!(transitions);
        snapshot.routers.objects.push(object(router));
    }
    let moves = moves(&snapshot);
    assert_eq!(moves.iter().map(|one| &*one.virtual_router).collect::<Vec<_>>(), ["again", "moved"]);
}

/// Prints what 10,000 addresses cost, decoding included: the answer is to come in a second of processor time (CONTRIBUTING.md: speed
/// is judged by people, not by tests).
#[test]
fn ten_thousand_addresses_are_told_in_one_screen() {
    const COUNT: usize = 10_000;
    let mut snapshot = healthy();
    let texts: Vec<[String; 2]> = (0..COUNT)
        .map(|index| {
            let address = format!("10.1.{}.{}", index / 250, index % 250);
            let name = format!("s{index}");
            let router = format!("r{}", index % 100);
            let has = format!("{address} from pool \"default\"");
            let status = if index % 100 == 0 { ("False", "NotAnnounced") } else { ("True", "Allocated") };
            [service(&name, &address, status.0, status.1, &has), vip(&address, &name, &router)]
                .map(|value| value.to_string())
        })
        .collect();
    snapshot.routers.objects = (0..100).map(|index| object(router(&format!("r{index}")))).collect();

    let began = processor_time();
    for [service, vip] in &texts {
        snapshot.services.objects.push(serde_json::from_str(service).unwrap());
        snapshot.vips.objects.push(serde_json::from_str(vip).unwrap());
    }
    let decoded = processor_time();
    let overview = Overview::of(&snapshot);
    let text = overview.text(false, now());
    let (decoding, telling) = (decoded.saturating_sub(began), processor_time().saturating_sub(decoded));
    println!("{COUNT} Services and addresses, processor time: decoded in {decoding:?}, told in {telling:?}");
    assert!(text.contains("and 97 more Services with NotAnnounced"), "{text}");
    assert!(text.lines().count() < 50, "{text}");
    assert_eq!(overview.addresses.announced, COUNT + 1);
}

/// What this thread has used.
fn processor_time() -> Duration {
    let used = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(used.split(' ').next().unwrap().parse().unwrap())
}
