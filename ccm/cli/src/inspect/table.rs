//! Tables, as kubectl prints them. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A column: its heading, whether it is there in a wide table only, and its cell. An empty cell is shown as `<none>`.
pub(super) type Column<R> = (&'static str, bool, fn(&R, Timestamp) -> String);

/// A row of a table.
pub(super) trait Row: Sized + 'static {
    /// The columns. They keep their order and headings: scripts go by them.
    const COLUMNS: &'static [Column<Self>];
}

/// Placeholder for an empty value.
const NOTHING: &str = "<none>";
/// Between two columns.
const GAP: &str = "   ";

/// The table of these rows; nothing, if there are none.
pub(super) fn text<R: Row>(rows: &[R], wide: bool, now: Timestamp) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let shown: Vec<&Column<R>> = R::COLUMNS.iter().filter(|(_, is_wide, _)| wide || !is_wide).collect();
    let heading = shown.iter().map(|(heading, ..)| (*heading).to_owned()).collect();
    let cells = rows.iter().map(|row| {
        let cells = shown.iter().map(|(.., cell)| cell(row, now));
        cells.map(|cell| if cell.is_empty() { NOTHING.to_owned() } else { cell }).collect()
    });
    aligned(&std::iter::once(heading).chain(cells).collect::<Vec<Vec<String>>>())
}

/// Lines whose columns are as wide as their widest cell.
pub(super) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join(GAP).trim_end());
        text.push('\n');
    }
    text
}

/// The same lines, further to the right.
pub(super) fn indented(text: &str) -> String {
    text.lines().fold(String::new(), |indented, line| indented + "  " + line + "\n")
}

/// Returns the age of `then`, as kubectl prints it: `45s`, `12m`, `3h5m`, `4d`.
pub(super) fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (minutes, hours, days) {
        (0..=1, _, _) => format!("{seconds}s"),
        (_, 0..=2, _) => format!("{minutes}m"),
        (_, 3..=9, _) => format!("{hours}h{}m", minutes % 60),
        (_, _, 0..=1) => format!("{hours}h"),
        (_, _, 2..=7) => format!("{days}d{}h", hours % 24),
        (_, _, _) => format!("{days}d"),
    }
}

/// Returns the age of a time; an empty text if there is none.
pub(super) fn age_of(then: Option<&Time>, now: Timestamp) -> String {
    then.map(|then| age(then.0, now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str, &'static str);

    impl Row for Named {
        const COLUMNS: &'static [Column<Self>] = &[
            ("NAME", false, |row, _| row.0.to_owned()),
            ("WIDE", true, |_, _| "w".to_owned()),
            ("WORDS", false, |row, _| row.1.to_owned()),
        ];
    }

    #[test]
    fn columns_are_as_wide_as_they_need_to_be_and_wide_ones_come_when_asked_for() {
        let rows = [Named("a", "one"), Named("longer", "")];
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(text(&rows, false, now), "NAME     WORDS\na        one\nlonger   <none>\n");
        assert_eq!(
            text(&rows, true, now),
            "NAME     WIDE   WORDS\na        w      one\nlonger   w      <none>\n"
        );
        assert_eq!(text::<Named>(&[], true, now), "");
    }

    #[test]
    fn ages_are_told_as_kubectl_does() {
        let rows = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600 + 300, "3h5m"),
            (10 * 3600, "10h"),
            (47 * 3600, "47h"),
            (50 * 3600, "2d2h"),
            (30 * 86_400, "30d"),
            // Of a clock that is ahead.
            (-5, "0s"),
        ];
        for (seconds, told) in rows {
            let now = Timestamp::from_second(1_800_000_000 + seconds).unwrap();
            assert_eq!(age(Timestamp::from_second(1_800_000_000).unwrap(), now), told, "{seconds}");
        }
    }
}
