use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn runs_are_a_set_kept_maximal(steps in prop::collection::vec((any::<bool>(), 0..60u128, 0..12u128), 1..60)) {
        let (mut runs, mut set) = (Runs::default(), BTreeSet::new());
        for (add, first, more) in steps {
            if add {
                runs.insert(first, first + more);
                set.extend(first..=first + more);
            } else {
                runs.remove(first, first + more);
                set.retain(|n| !(first..=first + more).contains(n));
            }
            let members: BTreeSet<u128> = runs.iter().flat_map(|(first, last)| first..=last).collect();
            prop_assert_eq!(&members, &set);
            prop_assert_eq!(runs.count(), set.len() as u128);
            let list: Vec<_> = runs.iter().collect();
            prop_assert!(list.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{:?}", list);
            for low in 0..=70 {
                prop_assert_eq!(runs.contains(low), set.contains(&low));
                let inside: Vec<_> = runs.within(low, 70).flat_map(|(first, last)| first..=last).collect();
                prop_assert_eq!(inside, set.range(low..71).copied().collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn the_highest_number_is_a_member_like_others() {
    let mut runs = Runs::default();
    runs.insert(u128::MAX - 1, u128::MAX);
    runs.insert(u128::MAX, u128::MAX);
    assert_eq!((runs.contains(u128::MAX), runs.count()), (true, 2));
    runs.remove(u128::MAX, u128::MAX);
    assert_eq!((runs.contains(u128::MAX), runs.count()), (false, 1));
}
