use windlass_ipam::Family;

use super::*;

fn reason_of(considered: &[Refusal]) -> &'static str {
    let considered =
        considered.iter().map(|&why| Refused { pool: "p".to_owned(), why, admits: None }).collect();
    reason(&AllocateError::NoFreeAddress { family: Family::V4, wanted: 1, considered, unshared: Vec::new() })
}

#[test]
fn pools_that_are_all_for_others_are_not_short_of_addresses() {
    let full = Refusal::Full { total: 1 };
    for (considered, reason) in [
        (&[Refusal::OtherNamespace][..], "PoolNotAllowed"),
        (&[Refusal::NotNamed, Refusal::OtherFamily, Refusal::OtherLabels], "PoolNotAllowed"),
        (&[Refusal::OtherNamespace, full], "NoFreeAddress"),
        (&[Refusal::OtherNamespace, Refusal::Disabled], "NoFreeAddress"),
        (&[Refusal::NotNamed], "NoFreeAddress"),
        (&[], "NoFreeAddress"),
    ] {
        assert_eq!(reason_of(considered), reason, "{considered:?}");
    }
}
