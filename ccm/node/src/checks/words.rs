//! Foreign text as part of a reason: one line, shortened, without control characters.

/// Maximum number of characters that are shown.
const MOST: usize = 200;

/// Returns the first line that is not blank.
pub(super) fn first_line(text: &[u8]) -> Option<String> {
    shown(String::from_utf8_lossy(text).lines())
}

/// The last one.
pub(super) fn last_line(text: &[u8]) -> Option<String> {
    shown(String::from_utf8_lossy(text).lines().rev())
}

fn shown<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let line = lines.find(|line| !line.trim().is_empty())?.trim();
    let clean = line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut text: String = clean.take(MOST).collect();
    if line.chars().count() > MOST {
        text.push('…');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_others_say_one_clean_line_is_shown() {
        for (text, first, last) in [
            (&b""[..], None, None),
            (b" \n\t\n", None, None),
            (b"one", Some("one"), Some("one")),
            (b"\n one \r\ntwo\n\n", Some("one"), Some("two")),
            (b"\x1b[31mred\xff", Some("\u{fffd}[31mred\u{fffd}"), Some("\u{fffd}[31mred\u{fffd}")),
        ] {
            assert_eq!((first_line(text).as_deref(), last_line(text).as_deref()), (first, last), "{text:?}");
        }
        let long = first_line(&b"x".repeat(1000)).unwrap();
        assert_eq!((long.chars().count(), long.ends_with("x…")), (MOST + 1, true));
        assert_eq!(first_line(&b"x".repeat(MOST)).unwrap(), "x".repeat(MOST));
    }
}
