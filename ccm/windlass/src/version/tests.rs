use super::*;

#[test]
fn a_release_says_its_commit_and_the_time_of_it() {
    let build =
        Build::new(Some("0a1b-dirty"), Some("1795719122"), "1.95.0 (5980 2026-04-14)", "x86_64-linux");
    assert_eq!(build.commit, "0a1b-dirty");
    assert_eq!(build.date, "2026-11-26T18:52:02Z");
    let text = build.print(Output::Text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            concat!("windlass ", env!("CARGO_PKG_VERSION")),
            "commit: 0a1b-dirty",
            "built: 2026-11-26T18:52:02Z",
            "rustc: 1.95.0 (5980 2026-04-14)",
            "target: x86_64-linux",
        ]
    );
    let json: serde_json::Value = serde_json::from_str(&build.print(Output::Json).unwrap()).unwrap();
    let expected = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": "0a1b-dirty",
        "buildDate": "2026-11-26T18:52:02Z",
        "rustc": "1.95.0 (5980 2026-04-14)",
        "target": "x86_64-linux",
    });
    assert_eq!(json, expected);
}

#[test]
fn what_a_build_does_not_say_is_unknown_and_no_failure() {
    for (commit, epoch) in [
        (None, None),
        (Some(""), Some("")),
        (None, Some("yesterday")),
        (None, Some("-99999999999999")),
        (None, Some("99999999999999999999")),
    ] {
        let build = Build::new(commit, epoch, "", "");
        assert_eq!([&*build.commit, &*build.date, &*build.rustc, &*build.target], [UNKNOWN; 4], "{epoch:?}");
    }
}
