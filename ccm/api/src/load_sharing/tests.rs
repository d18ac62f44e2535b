use proptest::prelude::*;

use super::*;

fn shared(lots: &str, former: &[&str]) -> SharedLoad {
    let node = |key: char, last: u8| SharingNode {
        key,
        name: format!("n{last}"),
        address: IpAddr::from([192, 0, 2, last]),
    };
    SharedLoad {
        by: SharedBy::Connection,
        nodes: vec![node('x', 1), node('7', 2)],
        lots: lots.to_owned(),
        former_lots: former.iter().map(|row| (*row).to_owned()).collect(),
    }
}

#[test]
fn a_table_is_read_by_the_keys_of_its_nodes() {
    let lots = "x".repeat(100) + &"7".repeat(20);
    let former = "7".to_owned() + &"-".repeat(119);
    let table = shared(&lots, &[&former]).table().expect("valid");
    assert_eq!((table.lots[0], table.lots[99], table.lots[100], table.lots[119]), (0, 0, 1, 1));
    assert_eq!(table.numbers(), [(0, 100), (1, 20)].into());
    assert_eq!(table.former.len(), 1);
    assert_eq!((table.former[0][0], table.former[0][1]), (Some(1), None));
}

#[test]
fn a_string_that_is_no_table_is_an_error_that_names_it() {
    let (good, none) = ("x".repeat(LOTS), "-".repeat(LOTS));
    let unknown = "x".repeat(3) + "ä" + &"x".repeat(116);
    let rows: [(&str, &[&str], &str); 6] = [
        ("", &[], "lots has 0 characters instead of 120, one for each lot"),
        (&"x".repeat(121), &[], "lots has 121 characters instead of 120, one for each lot"),
        (&unknown, &[], "lots: 'ä' of lot 3 is the key of no node"),
        (&none, &[], "lots: '-' of lot 0 is the key of no node"),
        (&good, &[&unknown], "formerLots: 'ä' of lot 3 is the key of no node"),
        (&good, &[none.as_str(); 4], "formerLots has 4 rows, more than 3"),
    ];
    for (lots, former, expected) in rows {
        let error = shared(lots, former).table().expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
    let mut many = shared(&good, &[]);
    many.nodes = vec![many.nodes[0].clone(); SHARING_NODES + 1];
    assert_eq!(many.table(), Err(SharedLoadError::TooManyNodes(61)));
}

#[test]
fn a_table_of_a_node_that_is_not_given_is_not_written() {
    let nodes = || vec![("n1".to_owned(), IpAddr::from([192, 0, 2, 1]))];
    let served = LotTable { lots: [0; LOTS], former: Vec::new() };
    assert!(SharedLoad::of(SharedBy::Client, nodes(), &served).is_some());
    for broken in [
        LotTable { lots: [1; LOTS], ..served.clone() },
        LotTable { former: vec![[Some(1); LOTS]], ..served.clone() },
    ] {
        assert_eq!(SharedLoad::of(SharedBy::Client, nodes(), &broken), None);
    }
    let many = (0..=SHARING_NODES).flat_map(|_| nodes()).collect();
    assert_eq!(SharedLoad::of(SharedBy::Client, many, &served), None);
}

#[test]
fn an_address_is_unshared_if_the_reason_is_not_a_lack_of_endpoints() {
    let unshared = |announced: &str, status: &str, reason: &str| {
        let condition = |type_: &str, status: &str, reason: &str| {
            serde_json::json!({
                "type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-06-01T12:00:00Z",
            })
        };
        let vip: crate::VirtualIP = serde_json::from_value(serde_json::json!({
            "metadata": {}, "spec": { "address": "192.0.2.9", "pool": "p", "owners": [], "virtualRouter": "r" },
            "status": { "conditions": [condition("Announced", announced, ""), condition("LoadShared", status, reason)] },
        }))
        .expect("an object");
        vip.unshared().is_some()
    };
    for reason in ["AgentTooOld", "OfALaterVersion"] {
        assert!(unshared("True", "False", reason), "{reason}");
    }
    assert!(!unshared("True", "True", "Shared"));
    assert!(!unshared("False", "False", "AgentTooOld"), "no node serves it");
    for reason in [crate::load_shared::ONE_SERVER, crate::load_shared::NO_SERVER] {
        assert!(!unshared("True", "False", reason), "{reason}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        lots in prop::array::uniform32(0_u8..60), former in prop::array::uniform32(prop::option::of(0_u8..60)), rows in 0_usize..4,
    ) {
        let table = LotTable {
            lots: std::array::from_fn(|lot| lots[lot % 32]),
            former: (0..rows).map(|row| std::array::from_fn(|lot| former[(lot + row) % 32])).collect(),
        };
        let nodes = (0..60).map(|n| (format!("n{n}"), IpAddr::from([192, 0, 2, n]))).collect();
        let shared = SharedLoad::of(SharedBy::Client, nodes, &table).expect("nodes of all indices");
        prop_assert_eq!(shared.table(), Ok(table));
    }
}
