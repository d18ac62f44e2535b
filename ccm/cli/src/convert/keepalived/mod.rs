//! keepalived's configuration, as text or in ConfigMaps, and the `KeepalivedGroup`s of keepalived-operator with the Services that
//! they carry: pools of their addresses, or the settings of `windlass vip`.
//!
//! | file | concept |
//! |---|---|
//! | `syntax` | `keepalived.conf`: lines, blocks, comments |
//! | `instances` | its `vrrp_instance`s as pools |
//! | `vip` | its `vrrp_instance`s as settings of `windlass vip` |
//! | `unread` | its keywords that were not converted |
//! | `operator` | keepalived-operator's objects |

mod instances;
mod operator;
mod syntax;
mod unread;
mod vip;

use serde_json::Value;

use super::Conversion;
use super::fields::{self, Object, origin};
use super::objects::Input;
use super::write::{Place, Writer};

#[cfg(test)]
mod tests;

/// A `keepalived.conf`.
struct Configuration<'a> {
    writer: &'a Writer,
    /// Origin of the text, for messages; empty if it is the input.
    origin: String,
    entries: Vec<syntax::Entry>,
}

impl<'a> Configuration<'a> {
    /// Reads a text, and reports errors of its syntax and entries that cannot be read.
    fn read(origin: String, text: &str, writer: &'a Writer) -> Self {
        let (entries, mut errors) = syntax::entries(text);
        unread(&entries, &mut errors);
        let configuration = Self { writer, origin, entries };
        for error in errors {
            configuration.whole().refuse(error);
        }
        configuration
    }

    /// Returns the position of the whole, for messages.
    fn whole(&self) -> Place<'a> {
        self.writer.at(if self.origin.is_empty() { "keepalived.conf" } else { &self.origin })
    }

    /// Returns the position of a line.
    fn line(&self, line: usize) -> Place<'a> {
        let separator = if self.origin.is_empty() { "" } else { ", " };
        self.writer.at(format!("{}{separator}line {line}", self.origin))
    }

    /// Returns the position of an entry that has a name.
    fn named(&self, entry: &syntax::Entry) -> Place<'a> {
        let name = entry.value().unwrap_or_default();
        self.line(entry.line).part(&format!("{} {name:?}", entry.keyword()))
    }
}

/// Reports the entries that are not read wherever they stand, and that might add or remove addresses.
fn unread(entries: &[syntax::Entry], errors: &mut Vec<String>) {
    for entry in entries {
        let (line, keyword) = (entry.line, entry.keyword());
        // Which of several hosts is Active first is of no matter here.
        let is_harmless = matches!(entry.value(), Some("state" | "priority" | "nopreempt"));
        if keyword.starts_with("include") {
            errors.push(format!(
                "line {line}: the converter does not follow {keyword}: join the files into one"
            ));
        } else if let Some(word) = entry.words.iter().find(|word| word.contains('$') || word.contains("{{")) {
            errors.push(format!(
                "line {line}: {word:?} is a variable or a template: render the file first, or write the value"
            ));
        } else if keyword.starts_with('~') {
            errors.push(format!("line {line}: the converter does not expand sequences: write their values"));
        } else if keyword.starts_with('@') && !is_harmless {
            errors.push(format!("line {line}: the converter does not read lines for some hosts only: write the lines that apply, \
                                 without {keyword}"));
        }
        unread(&entry.block, errors);
    }
}

/// Converts what is in `text`; with ports of a virtual IP, to settings of `windlass vip` for these ports.
pub(super) fn convert(text: &str, vip_ports: &[u16]) -> Conversion {
    let is_objects = is_objects(text);
    let input = Input::read(if is_objects { text } else { "" }, "keepalived");
    let writer = &input.writer;
    let configurations: Vec<Configuration<'_>> = if is_objects {
        input.others.iter().filter_map(|object| configuration(object, writer)).collect()
    } else {
        vec![Configuration::read(String::new(), text, writer)]
    };
    if !vip_ports.is_empty() {
        for object in input.services.iter().chain(&input.others).filter(|object| conf(object).is_none()) {
            writer.foreign(origin(object));
        }
        vip::convert(&configurations, vip_ports, writer);
        return writer.finish();
    }
    let has_groups = input.others.iter().any(|object| operator::is_group(&Object::new(object)));
    for configuration in &configurations {
        if has_groups {
            configuration
                .whole()
                .note("left out, because the KeepalivedGroups and their Services have the same settings");
        } else {
            instances::convert(configuration);
            unread::report(configuration, false);
        }
    }
    operator::convert(&input);
    writer.finish()
}

/// True of a text of Kubernetes' objects; no `keepalived.conf` has such a word.
fn is_objects(text: &str) -> bool {
    ["apiVersion:", "apiVersion\":"].iter().any(|field| text.contains(field))
}

/// The configuration in a ConfigMap.
fn configuration<'a>(object: &Value, writer: &'a Writer) -> Option<Configuration<'a>> {
    Some(Configuration::read(format!("{}: keepalived.conf", origin(object)), &conf(object)?, writer))
}

/// Its text.
fn conf(object: &Value) -> Option<String> {
    let data = fields::labels(&Object::new(object), "data").ok().filter(|_| object["kind"] == "ConfigMap")?;
    data.get("keepalived.conf").cloned()
}
