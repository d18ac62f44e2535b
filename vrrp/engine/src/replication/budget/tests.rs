use proptest::prelude::*;

use super::*;

fn usage(entries: u32, limit: u32) -> Usage {
    Usage { entries, limit }
}

#[test]
fn replicas_take_half_of_the_table_and_leave_the_last_tenth_to_the_node_and_yield_what_it_needs() {
    for (entries, limit, held, expected, why) in [
        (0, 262_144, 0, 131_072, "half of the table"),
        (100_000, 262_144, 90_000, 131_072, "the same, by how many there are"),
        (200_000, 262_144, 50_000, 85_929, "as many as fit below 90 %"),
        (235_929, 262_144, 50_000, 50_000, "90 % are in use"),
        (249_036, 262_144, 50_000, 50_000, "95 %: none comes, none goes"),
        (249_037, 262_144, 50_000, 36_892, "beyond 95 %: down to 90 %"),
        (262_144, 262_144, 10_000, 0, "the node needs all of it"),
        (150_000, 262_144, 140_000, 131_072, "the table was made smaller"),
        (5000, 2_097_152, 0, MOST, "memory is bounded however large the table is"),
        (5000, 0, 0, MOST, "no limit"),
    ] {
        assert_eq!(budget(usage(entries, limit), held), expected, "{why}");
    }
}

#[test]
fn who_has_the_most_yields_first() {
    for (budget, held, expected) in [
        (100, &[50, 50][..], &[0, 0][..]),
        (90, &[50, 50], &[5, 5]),
        (100, &[10, 200, 20], &[0, 130, 0]),
        (100, &[10, 200, 150], &[0, 155, 105]),
        (0, &[1, 2], &[1, 2]),
        (5, &[], &[]),
    ] {
        assert_eq!(excess(budget, held), expected, "{budget} {held:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))] // 0.051 ms each

    // shows: threats T-16
    /// Whatever the node itself and its peers do: never more than the table's half, and never beyond 95 % for the replicas' sake.
    #[test]
    fn replicas_never_take_what_the_node_needs(
        limit in 1_u32..3_000_000,
        steps in proptest::collection::vec((0_u32..3_000_000, any::<bool>()), 1..30),
    ) {
        let mut held = 0;
        for (own, peers_tell_more) in steps {
            // What does not fit beside the replicas was refused.
            let replicas = u32::try_from(held).unwrap();
            let own = own.min(limit - replicas);
            let entries = own + replicas;
            let budget = budget(usage(entries, limit), held);
            prop_assert!(budget <= MOST && budget <= usize::try_from(limit).unwrap() / 2);
            held = if peers_tell_more { budget } else { held.min(budget) };
            let in_use = u64::from(own) + u64::try_from(held).unwrap();
            prop_assert!(held == 0 || in_use * 100 <= u64::from(limit) * 95, "{held} beside {own} of {limit}");
        }
    }

    /// A peer that tells without end leaves the others their part.
    #[test]
    fn each_peer_has_its_equal_part_and_all_together_are_within_the_budget(
        budget in 0_usize..10_000,
        held in proptest::collection::vec(0_usize..20_000, 1..8),
    ) {
        let part = budget / held.len();
        let excess = excess(budget, &held);
        let left: Vec<usize> = held.iter().zip(&excess).map(|(held, excess)| held - excess).collect();
        let total: usize = left.iter().sum();
        prop_assert!(total <= budget);
        prop_assert!(held.iter().sum::<usize>() > budget || excess.iter().all(|excess| *excess == 0));
        for (held, left) in held.iter().zip(&left) {
            prop_assert!(*left >= part.min(*held), "no less than its part");
            let room = room(budget, excess.len(), total, *left);
            prop_assert!(room >= part && room >= *left && room <= part.max(left + budget - total));
        }
    }
}
