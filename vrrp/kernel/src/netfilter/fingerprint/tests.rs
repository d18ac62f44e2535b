use super::*;
use crate::netfilter::element::Element;

fn elements(keys: &[u8]) -> Vec<Element> {
    keys.iter().map(|key| Element::of(vec![*key; 4])).collect()
}

fn about(set: &str) -> Attributes {
    Attributes::new().text(TABLE, "t").text(SET, set)
}

fn change(batch: &mut Batch, operation: Operation, set: &str, keys: &[u8]) {
    batch.add("change", operation, about(set).nest(3, &element::encode(&elements(keys))));
}

fn batch(steps: &[(Operation, &str, &[u8])]) -> Batch {
    let mut batch = Batch::default();
    for (operation, set, keys) in steps {
        change(&mut batch, *operation, set, keys);
    }
    batch
}

/// Sets `a` and `b` with these elements, and one whose elements go by themselves.
fn written() -> WrittenSets {
    let mut batch = Batch::default();
    for (set, flags) in [("a", 0), ("b", 0x4), ("gone", element::TIMEOUT)] {
        batch.add("create", Operation::NewSet, about(set).number(FLAGS, flags));
        change(&mut batch, Operation::NewElements, set, &[1, 2, 3]);
    }
    let mut written = WrittenSets::default();
    written.follow(&batch);
    written
}

/// What a kernel lists with these elements, in pieces.
fn listed(written: &WrittenSets, keys: &[u8]) -> Fingerprint {
    let mut found = Fingerprint::default();
    for piece in elements(keys).chunks(2) {
        let answer = about("a").nest(3, &element::encode(piece));
        element::each(answer.as_bytes()).for_each(|element| found.add(element, &written.key));
    }
    found
}

#[test]
fn a_fingerprint_is_that_of_the_elements_whatever_their_order_and_history() {
    let mut written = written();
    assert_eq!(written.sets.keys().collect::<Vec<_>>(), ["a", "b"], "no set whose elements go by themselves");
    assert_eq!(written.sets["a"].fingerprint, listed(&written, &[3, 1, 2]));
    for other in [&[1, 2][..], &[1, 2, 4], &[1, 2, 3, 3], &[]] {
        assert_ne!(written.sets["a"].fingerprint, listed(&written, other), "{other:?}");
    }
    written.follow(&batch(&[(Operation::NewElements, "a", &[7]), (Operation::DeleteElements, "a", &[1, 2])]));
    assert_eq!(written.sets["a"].fingerprint, listed(&written, &[7, 3]));
    assert_eq!(written.sets["b"].fingerprint, listed(&written, &[1, 2, 3]));
}

#[test]
fn ends_of_ranges_and_what_a_map_has_count_too() {
    let written = WrittenSets::default();
    let of = |element: &Element| {
        let answer = about("a").nest(3, &element::encode([element]));
        let mut found = Fingerprint::default();
        element::each(answer.as_bytes()).for_each(|element| found.add(element, &written.key));
        found
    };
    let plain = Element::of(vec![1; 4]);
    let others = [Element { ends: true, ..plain.clone() }, Element { data: vec![9; 4], ..plain.clone() }];
    assert!(others.iter().all(|other| of(other) != of(&plain)));
}

#[test]
fn a_difference_counts_only_in_sets_that_were_not_changed_meanwhile() {
    let mut written = written();
    let compared = |written: &WrittenSets, differing: &[&str]| Compared {
        written: written.clone(),
        generation: None,
        differing: differing.iter().map(|name| (*name).to_owned()).collect(),
    };
    let (same, other, both) =
        (compared(&written, &[]), compared(&written, &["a"]), compared(&written, &["a", "b"]));
    assert_eq!(written.judge(&other), Verdict::Differs);
    // Changed and changed back: the list may have been made in between.
    written.follow(&batch(&[(Operation::NewElements, "a", &[9])]));
    written.follow(&batch(&[(Operation::DeleteElements, "a", &[9])]));
    assert_eq!(written.judge(&same), Verdict::Same);
    assert_eq!(written.judge(&other), Verdict::Outdated);
    assert_eq!(written.judge(&both), Verdict::Differs, "the set b is as it was then");
}

#[test]
fn a_table_that_is_made_anew_begins_anew() {
    let mut written = written();
    let mut anew = Batch::default();
    anew.add("delete", Operation::DeleteTable, Attributes::new().text(TABLE, "t"));
    anew.add("create", Operation::NewSet, about("a").number(FLAGS, 0));
    change(&mut anew, Operation::NewElements, "a", &[5]);
    written.follow(&anew);
    assert_eq!(written.sets.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(written.sets["a"].fingerprint, listed(&written, &[5]));
}

#[test]
fn a_list_is_made_again_before_a_set_is_taken_for_changed() {
    let expected = Fingerprint { count: 2, sum: 7 };
    let other = Fingerprint { count: 1, sum: 3 };
    let mut lists = [other, other, expected].into_iter();
    assert!(is_found(expected, &mut || Ok(lists.next())).unwrap(), "while a set grows, lists are not whole");
    assert!(!is_found(expected, &mut || Ok(Some(other))).unwrap());
    assert!(!is_found(expected, &mut || Ok(None)).unwrap(), "there is no such set");
    assert!(is_found(expected, &mut || Err(io::ErrorKind::TimedOut.into())).is_err());
}
