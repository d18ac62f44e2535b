use super::*;

#[test]
fn terms_are_kept_once_and_until_the_last_has_left() {
    let mut known = InternedTerms::default();
    let first = known.intern(&Terms::alone("ns"));
    let second = known.intern(&Terms::alone("ns"));
    assert!(Arc::ptr_eq(&first, &second));
    known.intern(&Terms::alone("other"));
    assert_eq!(known.len(), 2);
    known.release(&first);
    assert_eq!(known.len(), 2, "the second still has them");
    drop(second);
    known.release(&first);
    assert_eq!(known.len(), 1);
}
