use super::*;

#[test]
fn a_higher_verbosity_shows_more_as_in_kubernetes() {
    let rows = [
        (-1, "info"),
        (0, "info"),
        (2, "info"),
        (3, "info"),
        (4, "debug"),
        (5, "debug"),
        (6, "trace"),
        (10, "trace"),
    ];
    for (verbosity, level) in rows {
        let filter = filter(verbosity);
        assert!(filter.starts_with(level), "{verbosity}: {filter}");
        assert!(check(filter).is_ok(), "{filter}");
    }
}

#[test]
fn a_filter_that_is_none_is_named_with_what_is_one() {
    let error = check("loud,,=x").unwrap_err().to_string();
    assert!(error.contains("\"loud,,=x\"") && error.contains("info,kube_client=debug"), "{error}");
}
