use super::*;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Layer(&'static str, #[source] Option<Box<Self>>);

fn layers(words: &[&'static str]) -> Layer {
    Layer(words[0], (words.len() > 1).then(|| Box::new(layers(&words[1..]))))
}

#[test]
fn a_cause_that_the_error_already_tells_is_not_told_twice() {
    for (words, expected) in [
        (
            &["cannot start", "cannot open: refused; allow it", "refused"][..],
            "cannot start: cannot open: refused; allow it",
        ),
        (&["cannot read x", "no such file"], "cannot read x: no such file"),
        (&["alone"], "alone"),
    ] {
        assert_eq!(sentence(&layers(words)), expected);
    }
}

#[test]
fn work_that_ends_ends_the_process_with_what_it_says() {
    assert!(until_signal(async |_| Ok::<_, BoxError>(())).is_ok());
    let error = until_signal(async |_| Err::<(), _>("it broke")).unwrap_err();
    assert_eq!(error.to_string(), "it broke");
}
