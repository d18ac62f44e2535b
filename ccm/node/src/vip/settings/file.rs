//! YAML text into a draft.

use super::draft::Draft;
use super::given::SettingsError;

/// The draft in the text of the file `name`.
pub(super) fn draft(text: &[u8], name: &str) -> Result<Draft, SettingsError> {
    let text = str::from_utf8(text).map_err(|error| {
        let before = text.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.split(|byte| *byte == b'\n').count();
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        let position = u64::try_from(line).ok().zip(u64::try_from(column).ok());
        SettingsError::no_settings(name, position, "the file is not text in UTF-8: save it as such")
    })?;
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| mistake(&error, text, name))
}

/// Returns the parser's error, in its words but with the line that it is about.
fn mistake(error: &serde_saphyr::Error, text: &str, name: &str) -> SettingsError {
    let at = error.location().filter(|at| at.line() > 0);
    let said = error.without_snippet().to_string();
    let said = said.lines().next().unwrap_or("it cannot be read");
    let said = in_words(said.split(" at line ").next().unwrap_or(said));
    let line = at.and_then(|at| text.lines().nth(usize::try_from(at.line()).ok()?.checked_sub(1)?));
    let line = line.map(str::trim).filter(|line| !line.is_empty());
    let near = line.map(|line| format!(" in `{}`", line.chars().take(100).collect::<String>()));
    let problem = format!("{said}{}: correct it; docs/api-vip.md has an example", near.unwrap_or_default());
    SettingsError::no_settings(name, at.map(|at| (at.line(), at.column())), &problem)
}

/// Translates a message of the parser for the author of the file.
fn in_words(said: &str) -> String {
    if let Some(rest) = said.strip_prefix("duplicate mapping key: ") {
        return format!("{} is given twice", rest.split(',').next().unwrap_or(rest));
    }
    let words = [
        ("expected sequence start", "a list is expected"),
        ("expected string scalar", "a single value is expected, not a list or fields"),
        ("expected mapping start", "fields are expected"),
        ("multiple YAML documents detected", "a second document begins, and Windlass reads only one"),
    ];
    let known = words.into_iter().find(|(said_so, _)| said.starts_with(said_so));
    known.map_or(said, |(_, words)| words).to_owned()
}
