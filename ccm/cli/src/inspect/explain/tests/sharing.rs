use super::*;
use crate::inspect::scene::shared_vip;

const SHARED: [&str; 3] = ["True", "Shared", "n1 60, n3 60 of 120 lots; n3 does not answer: n1 has its lots"];

fn with([status, reason, message]: [&str; 3], change: impl FnOnce(&mut Value)) -> Snapshot {
    let mut vip = shared_vip(status, reason, message);
    change(&mut vip);
    let mut snapshot = healthy();
    snapshot.vips.objects[0] = object(vip);
    snapshot
}

fn of_client(snapshot: &Snapshot, client: &str) -> Explanation {
    let subject = Subject::parse("web", "default").unwrap();
    let client = Some(client.parse().unwrap());
    Explanation::of(&subject, client, snapshot, &Details::default()).unwrap()
}

#[test]
fn the_shares_of_nodes_and_former_servers_are_shown_with_the_words_of_the_condition() {
    let snapshot = with(SHARED, |_| ());
    let expected = "  \
  shared   LoadShared True Shared since 120m: n1 60, n3 60 of 120 lots; n3 does not answer: n1 has its lots
           connections of one client go to several nodes
           former servers keep the connections that they have, for an hour from the move of the lot
    SERVER   LOTS   SHARE   FORMER LOTS
    n1       60     50%
    n3       60     50%
    n2       0      0%      60-62, 70
";
    for subject in ["web", "192.0.2.10"] {
        says(&explained(subject, &snapshot, &Details::default()), &[expected]);
    }
    let first = json!(explained("web", &snapshot, &Details::default()))["addresses"][0]["sharing"].clone();
    assert_eq!(
        first["servers"][2],
        json!({"node": "n2", "lots": 0, "percent": 0, "formerLots": [60, 61, 62, 70]})
    );
}

#[test]
fn an_address_that_is_not_shared_has_the_reason_and_one_that_should_not_be_has_no_line() {
    let snapshot = with(["False", "OfALaterVersion", "update the agents"], |vip| {
        vip["spec"]["loadSharing"] = Value::Null;
    });
    let explanation = explained("web", &snapshot, &Details::default());
    says(
        &explanation,
        &[
            "warning VirtualIP 192.0.2.10 OfALaterVersion: update the agents\n  do: ",
            "shared   LoadShared False OfALaterVersion since 120m: update the agents",
        ],
    );
    let text = explained("web", &healthy(), &Details::default()).text(now());
    assert!(!text.contains("shared "), "{text}");
}

#[test]
fn the_node_of_a_client_is_the_one_of_its_lot() {
    let by_client = |vip: &mut Value| vip["spec"]["loadSharing"]["by"] = json!("Client");
    let sctp = |vip: &mut Value| vip["spec"]["ports"] = json!([{ "protocol": "SCTP", "port": 80 }]);
    let unshared = ["False", "Unguarded", "the guard does nothing"];
    let rows: [(Snapshot, &str, &str); 7] = [
        // Lots of the kernel's `jhash`, computed by another program.
        (with(SHARED, |_| ()), "198.51.100.7:40000", "in lot 71, which node n3 serves\n"),
        (
            with(SHARED, |_| ()),
            "198.51.100.7:40002",
            "serves; connections that began on n2 before the lot moved stay there\n",
        ),
        (with(SHARED, by_client), "198.51.100.7", "in lot 25, which node n1 serves"),
        (with(SHARED, by_client), "198.51.100.7:40000", "in lot 25, which node n1 serves"),
        (with(SHARED, |_| ()), "198.51.100.7", "name its port, too (--client ADDRESS:PORT)"),
        (with(SHARED, sctp), "198.51.100.7:40000", "serves; SCTP: node n1"),
        (with(unshared, |_| ()), "198.51.100.7:40000", "node n1 gets its packets, as those of all clients"),
    ];
    for (snapshot, client, expected) in rows {
        says(&of_client(&snapshot, client), &[expected]);
    }
    says(&of_client(&healthy(), "198.51.100.7:40000"), &["node n1 gets its packets"]);
    let of_another_family = of_client(&with(SHARED, |_| ()), "[2001:db8::7]:40000");
    assert_eq!(of_another_family.addresses[0].client, None);
    for text in ["198.51.100.7:", "2001:db8::7:x", "web", "198.51.100.7:65536"] {
        assert!(text.parse::<Client>().is_err(), "{text}");
    }
}
