use super::*;

#[test]
fn a_percentile_is_the_smallest_value_that_so_many_do_not_exceed() {
    for (values, least, median, p99, most) in [
        (vec![7], 7, 7, 7, 7),
        (vec![9, 3], 3, 3, 9, 9),
        (vec![3, 1, 2], 1, 2, 3, 3),
        ((1..=100).rev().collect(), 1, 50, 99, 100),
        ((1..=1000).collect(), 1, 500, 990, 1000),
    ] {
        let sorted: Sorted<u64> = values.into_iter().collect();
        let found = [sorted.least(), sorted.median(), sorted.percentile(99), sorted.most()];
        assert_eq!(found, [least, median, p99, most].map(Some), "{sorted:?}");
    }
    let none: Sorted<Duration> = [].into_iter().collect();
    assert_eq!((none.count(), none.least(), none.median(), none.most()), (0, None, None, None));
}

#[test]
fn times_are_rounded_to_what_a_report_shows() {
    let time = Duration::from_micros(1460);
    assert_eq!((milliseconds(time).to_string(), whole_milliseconds(time)), ("1.5".to_owned(), 1));
    assert_eq!((milliseconds(None).to_string(), whole_milliseconds(None)), ("0".to_owned(), 0));
    assert_eq!(rounded(1.2345, 100.0).to_string(), "1.23");
    assert_eq!(float(7).to_string(), "7");
}

#[test]
fn counts_are_added_by_name() {
    let named = |name: &str, count| (name.to_owned(), count);
    let mut sums = BTreeMap::from([named("reset", 1)]);
    add_counts(&mut sums, [named("reset", 2), named("refused", 3)]);
    assert_eq!(sums, [named("reset", 3), named("refused", 3)].into());
}

#[test]
fn an_owner_of_nothing_has_the_least_share() {
    let owners = ["n1", "n2", "n1"].map(str::to_owned);
    assert_eq!(shares(&owners, []), Shares { most: 2, least: 1 });
    assert_eq!(shares(&owners, ["n2", "n3"]), Shares { most: 2, least: 0 });
    assert_eq!(shares(&[], []), Shares::default());
}

#[test]
fn groups_are_in_the_order_in_which_their_keys_first_come() {
    assert_eq!(grouped([3, 10, 5, 12], |n| n % 2), [(1, vec![3, 5]), (0, vec![10, 12])]);
}
