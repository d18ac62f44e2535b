use super::*;

fn parse(text: &str) -> Result<Duration, String> {
    text.parse::<GoDuration>().map(|GoDuration(duration)| duration).map_err(|error| error.to_string())
}

#[test]
fn durations_are_read_as_go_reads_them_and_shown_as_go_shows_them() {
    let rows: [(&str, u128, &str); 20] = [
        ("0", 0, "0s"),
        ("0s", 0, "0s"),
        ("15s", 15_000_000_000, "15s"),
        ("+5s", 5_000_000_000, "5s"),
        ("5m", 300_000_000_000, "5m0s"),
        ("12h", 43_200_000_000_000, "12h0m0s"),
        ("1m30s", 90_000_000_000, "1m30s"),
        ("1h15m30.918s", 4_530_918_000_000, "1h15m30.918s"),
        ("1.5h", 5_400_000_000_000, "1h30m0s"),
        (".5s", 500_000_000, "500ms"),
        ("5.s", 5_000_000_000, "5s"),
        ("300ms", 300_000_000, "300ms"),
        ("1500us", 1_500_000, "1.5ms"),
        ("12\u{b5}s", 12_000, "12µs"),
        ("12\u{3bc}s", 12_000, "12µs"),
        ("7ns", 7, "7ns"),
        ("1s1s", 2_000_000_000, "2s"),
        ("1.5h30m", 7_200_000_000_000, "2h0m0s"),
        ("1m1h", 3_660_000_000_000, "1h1m0s"),
        ("9223372036854775807ns", 9_223_372_036_854_775_807, "2562047h47m16.854775807s"),
    ];
    for (text, nanoseconds, shown) in rows {
        let duration: GoDuration = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(duration.0.as_nanos(), nanoseconds, "{text}");
        assert_eq!(duration.to_string(), shown, "{text}");
        assert_eq!(duration.to_string().parse(), Ok(duration), "{text}: read again");
    }
}

#[test]
fn what_is_no_duration_is_refused_with_the_reason_and_examples() {
    let rows = [
        ("", "it is empty"),
        ("+", "it is empty"),
        ("-1s", "it is negative"),
        ("10", "10 has no unit"),
        ("1m30", "30 has no unit"),
        ("s", "s is no number"),
        ("five", "\"five\" is no number"),
        ("5 s", "\" s\" is no unit"),
        ("PT1H", "\"PT\" is no number"),
        ("1h ago", "\"h ago\" is no unit"),
        ("5d", "\"d\" is no unit"),
        ("5S", "\"S\" is no unit"),
        (".s", "no number"),
        ("1.2.3s", "no number"),
        ("9223372036854775808ns", "too long"),
        ("99999999999999999999999999999999999999999h", "too long"),
        ("2562048h", "too long"),
    ];
    for (text, reason) in rows {
        let error = parse(text).expect_err(text);
        assert!(error.contains(reason), "{text:?}: {error}");
        assert!(error.ends_with("as 1m30s, 300ms or 0"), "{text:?}: {error}");
    }
}
