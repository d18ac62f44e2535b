use super::*;

#[test]
fn terms_are_kept_once_and_until_the_last_has_left() {
    let mut known = KnownTerms::default();
    let first = known.keep(&Terms::alone("ns"));
    let second = known.keep(&Terms::alone("ns"));
    assert!(Arc::ptr_eq(&first, &second));
    known.keep(&Terms::alone("other"));
    assert_eq!(known.len(), 2);
    known.forget(&first);
    assert_eq!(known.len(), 2, "the second still has them");
    drop(second);
    known.forget(&first);
    assert_eq!(known.len(), 1);
}
