use serde_json::json;

use super::*;
use crate::inspect::scene::{healthy, network, now, object, service, shared_vip, vip};
use crate::inspect::table::text;

fn all() -> Selection {
    Selection::default()
}

fn named(names: &[&str]) -> Selection {
    Selection { names: names.iter().map(|name| (*name).to_owned()).collect(), ..Selection::default() }
}

#[test]
fn each_kind_has_a_line_for_each_object_with_what_of_others_belongs_to_it() {
    let it = healthy();
    let rows = [
        (
            text(&services(&it, &all()), false, now()),
            "NAMESPACE   NAME   ADDRESSES    NODES   POOLS     ALLOCATED   REASON      AGE\n\
             default     web    192.0.2.10   n1      default   True        Allocated   120m\n",
        ),
        (
            text(&pools(&it, &all()), false, now()),
            "NAME      ASSIGNED   AVAILABLE   FILL   ASSIGNED6   AVAILABLE6   FILL6    READY   REASON   AGE\n\
             default   156        100         61%    <none>      <none>       <none>   True    Usable   24h\n",
        ),
        (
            text(&nodes(&it, &named(&["n1"])), false, now()),
            "NAME   STATUS   AGENT   AGENT-READY   ROUTERS   ADDRESSES   FAILED\n\
             n1     Ready    0.1.0   <none>        1         1           <none>\n",
        ),
        (
            text(&routers(&it, &all()), false, now()),
            "NAME   VRID   SEGMENT        ACTIVE   SINCE   ADDRESSES   NODES\n\
             r1     1      192.0.2.0/24   n1       120m    1           n1=254,n2=238,n3=222\n",
        ),
        (
            text(&vips(&it, &all()), false, now()),
            "ADDRESS      SERVICES      POOL      NODE   ANNOUNCED   REASON   SINCE\n\
             192.0.2.10   default/web   default   n1     true        Active   120m\n",
        ),
    ];
    for (table, expected) in rows {
        assert_eq!(table, expected);
    }
}

#[test]
fn a_list_is_narrowed_by_namespace_and_by_name() {
    let mut it = healthy();
    let mut other = service("web", "192.0.2.11", "True", "Allocated", "");
    other["metadata"]["namespace"] = json!("shop");
    it.services.objects.push(object(other));
    it.vips.objects.push(object(vip("2001:db8::1", "six", "r1")));
    let of = |namespace: &str| Selection { namespace: Some(namespace.to_owned()), ..Selection::default() };
    assert_eq!(services(&it, &all()).len(), 2);
    assert_eq!(services(&it, &of("shop")).len(), 1);
    assert_eq!(services(&it, &named(&["api"])).len(), 0);
    for (name, count) in [("2001:db8::1", 1), ("2001-db8--1", 1), ("2001:db8:0::1", 1), ("192.0.2.99", 0)] {
        assert_eq!(vips(&it, &named(&[name])).len(), count, "{name}");
    }
    assert_eq!(vips(&it, &of("shop")).len(), 0, "no Service of that namespace has an address");
}

#[test]
fn a_shared_address_has_the_nodes_that_serve_it() {
    for (status, expected) in [("True", json!(["n1", "n3"])), ("False", json!([]))] {
        let mut it = healthy();
        it.vips.objects[0] = object(shared_vip(status, "Shared", "n1 60, n3 60 of 120 lots"));
        assert_eq!(json!(vips(&it, &all()))[0]["servers"], expected);
    }
}

#[test]
fn a_node_that_is_told_to_announce_and_is_gone_is_listed() {
    let mut it = healthy();
    it.nodes.objects.retain(|node| node.metadata.name.as_deref() != Some("n1"));
    it.networks.objects.push(object(network("n9")));
    let rows = json!(nodes(&it, &all()));
    let told: Vec<_> = rows.as_array().unwrap().iter().map(|row| (&row["name"], &row["ready"])).collect();
    let expected = [("n1", "Gone"), ("n2", "Ready"), ("n3", "Ready"), ("n9", "Gone")];
    assert_eq!(json!(told), json!(expected));
}

#[test]
fn structured_output_has_the_names_that_scripts_go_by() {
    let it = healthy();
    let keys = |value: serde_json::Value| -> Vec<String> {
        value[0].as_object().unwrap().keys().map(ToString::to_string).collect()
    };
    let vip_keys = keys(json!(vips(&it, &all())));
    for key in ["address", "services", "pool", "node", "announced", "reason", "since", "virtualRouter"] {
        assert!(vip_keys.iter().any(|one| one == key), "{key} in {vip_keys:?}");
    }
    assert_eq!(json!(vips(&it, &all()))[0]["since"], json!("2026-06-01T10:00:00Z"));
    let yaml = serde_saphyr::to_string(&vips(&it, &all())).unwrap();
    let read: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(read, json!(vips(&it, &all())));
}
