use serde_json::json;

use super::*;
use crate::inspect::scene::{healthy, object, service, vip};
use crate::inspect::snapshot::{Cause, Missing};

fn at(node: &str) -> Snapshot {
    let mut snapshot = healthy();
    let mut moved = vip("192.0.2.10", "web", "r1");
    moved["status"]["activeNode"] = json!(node);
    snapshot.vips.objects[0] = object(moved);
    snapshot.routers.objects[0].status.as_mut().unwrap().active_node = Some(node.to_owned());
    snapshot
}

#[test]
fn moves_and_problems_are_news_when_they_come_and_when_they_go() {
    let told = |before: &Snapshot, after: &Snapshot| news(&Look::of(before), &Look::of(after));
    let (first, second) = (at("n1"), at("n2"));
    assert_eq!(told(&first, &first), Vec::<String>::new());
    assert_eq!(told(&first, &second), ["move 192.0.2.10 from n1 to n2"]);

    let mut worse = at("n1");
    worse.services.objects.push(object(service("b", "", "False", "NoFreeAddress", "none is left")));
    let came = told(&first, &worse);
    assert_eq!(came.len(), 1, "{came:?}");
    assert!(came[0].starts_with("error Service default/b NoFreeAddress: none is left; do: add"), "{came:?}");
    assert_eq!(told(&worse, &first), ["over Service default/b NoFreeAddress"]);

    let mut empty = at("n1");
    empty.vips.objects.clear();
    empty.routers.objects.clear();
    assert_eq!(told(&first, &empty), ["released 192.0.2.10"]);
    assert_eq!(told(&empty, &first), ["announced 192.0.2.10 by n1"]);
}

#[test]
fn what_cannot_be_read_has_not_gone() {
    let mut unread = at("n1");
    unread.vips.objects.clear();
    unread.vips.missing = Some(Missing {
        kind: "VirtualIPs".to_owned(),
        cause: Cause::Unreachable,
        message: "no answer".to_owned(),
        remedy: "wait".to_owned(),
    });
    let told = news(&Look::of(&at("n1")), &Look::of(&unread));
    assert_eq!(told, ["error Kind VirtualIPs Unreachable: no answer; do: wait"]);
}
