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

use super::fields::{self, Object, origin};
use super::write::Writer;
use super::{Conversion, input};

#[cfg(test)]
mod tests;

/// A `keepalived.conf`.
struct Configuration {
    /// Origin of the text, for messages; empty if it is the input.
    origin: String,
    entries: Vec<syntax::Entry>,
    /// Errors of its syntax, and entries that cannot be read.
    errors: Vec<String>,
}

impl Configuration {
    fn read(origin: &str, text: &str) -> Self {
        let (entries, mut errors) = syntax::entries(text);
        unread(&entries, &mut errors);
        Self { origin: origin.to_owned(), entries, errors }
    }

    /// Returns the position of a line, for messages.
    fn place(&self, line: usize) -> String {
        if self.origin.is_empty() { format!("line {line}") } else { format!("{}, line {line}", self.origin) }
    }

    /// Reports the errors.
    fn tell(&self, writer: &mut Writer) {
        for error in &self.errors {
            let origin = if self.origin.is_empty() { "keepalived.conf" } else { &self.origin };
            writer.refuse(origin, error);
        }
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
    let (configurations, objects, errors) = if is_objects(text) {
        let (objects, errors) = input::objects(text);
        (objects.iter().filter_map(configuration).collect(), objects, errors)
    } else {
        (vec![Configuration::read("", text)], Vec::new(), Vec::new())
    };
    let mut writer = Writer::new("keepalived", errors);
    for configuration in &configurations {
        configuration.tell(&mut writer);
    }
    if !vip_ports.is_empty() {
        for object in objects.iter().filter(|object| configuration(object).is_none()) {
            writer.foreign(origin(object));
        }
        vip::convert(&configurations, vip_ports, &mut writer);
        return writer.finish();
    }
    let has_groups = objects.iter().any(operator::is_group);
    for configuration in &configurations {
        if has_groups {
            writer.note(
                &configuration.origin,
                "left out, because the KeepalivedGroups and their Services have the same settings",
            );
        } else {
            instances::convert(configuration, &mut writer);
            unread::report(configuration, false, &mut writer);
        }
    }
    operator::convert(&objects, &mut writer);
    writer.finish()
}

/// True of a text of Kubernetes' objects; no `keepalived.conf` has such a word.
fn is_objects(text: &str) -> bool {
    ["apiVersion:", "apiVersion\":"].iter().any(|field| text.contains(field))
}

/// The configuration in a ConfigMap.
fn configuration(object: &Value) -> Option<Configuration> {
    let data = fields::labels(&Object::new(object), "data").ok().filter(|_| object["kind"] == "ConfigMap")?;
    Some(Configuration::read(&format!("{}: keepalived.conf", origin(object)), data.get("keepalived.conf")?))
}
