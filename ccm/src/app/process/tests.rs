use super::*;

#[test]
fn work_that_ends_ends_the_process_with_what_it_says() {
    assert!(until_signal(async |_| Ok::<_, BoxError>(())).is_ok());
    let error = until_signal(async |_| Err::<(), _>("it broke")).unwrap_err();
    assert_eq!(error.to_string(), "it broke");
}
