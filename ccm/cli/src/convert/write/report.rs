//! Reports on standard error: each field that nothing read, and one line for all objects with the same message.

use super::super::Conversion;
use super::super::fields::{Object, pattern, shown};
use super::Writer;

/// Reports in which the same message is looked for.
const MAX_LOOK_BACK: usize = 256;
/// Objects that a message names before it counts the rest.
const MAX_NAMED: usize = 32;
const MAX_FOREIGN: usize = 4;

/// Severity of a line on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// Nothing was lost.
    Note,
    /// A setting was not converted, or means something else.
    Warning,
    /// An object, or a part of one, was left out.
    Error,
}

impl Writer {
    /// Reports a fact by which nothing is lost.
    pub(in super::super) fn note(&mut self, origin: &str, what: &str) {
        self.report(Weight::Note, origin, what.to_owned());
    }

    /// Reports a setting that was not converted, or that means something else now.
    pub(in super::super) fn warn(&mut self, origin: &str, what: &str) {
        self.report(Weight::Warning, origin, what.to_owned());
    }

    /// Reports what was left out.
    pub(in super::super) fn refuse(&mut self, origin: &str, why: &str) {
        self.report(Weight::Error, origin, format!("{why}. It was left out"));
    }

    /// Adds a report: one line for all objects with the same message.
    fn report(&mut self, weight: Weight, origin: &str, what: String) {
        let same = |report: &&mut (Weight, String, Vec<String>)| report.0 == weight && report.1 == what;
        match self.reports.iter_mut().rev().take(MAX_LOOK_BACK).find(same) {
            Some((_, _, origins)) if origins.last().is_some_and(|last| last == origin) => {}
            Some((_, _, origins)) => origins.push(origin.to_owned()),
            None => self.reports.push((weight, what, vec![origin.to_owned()])),
        }
    }

    /// Records an object of another program.
    pub(in super::super) fn foreign(&mut self, origin: String) {
        self.foreign.push(origin);
    }

    /// Reports every field that is set and that nothing read: `known` has the consequence and the nearest thing to do.
    pub(in super::super) fn unread(&mut self, origin: &str, object: &Object<'_>, known: &[(&str, &str)]) {
        for (path, value) in object.unread(known) {
            let pattern = pattern(&path);
            let is_it = |field: &str| {
                pattern.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let said = known.iter().find(|(field, _)| is_it(field)).map_or(
                "Windlass does not know the field, so it has no effect. Look for the nearest field of a VirtualIPPool or an Announcement",
                |(_, said)| said,
            );
            self.warn(origin, &format!("{path} ({}) is not converted: {said}", shown(value)));
        }
    }

    /// Reports an object of which nothing is converted, with the fields that it sets.
    pub(in super::super) fn unconverted(&mut self, origin: &str, object: &Object<'_>, why: &str) {
        self.warn(origin, &format!("it is not converted{}: {why}", set_fields(object)));
    }

    /// Everything that was printed and reported.
    pub(in super::super) fn finish(mut self) -> Conversion {
        if !self.foreign.is_empty() {
            let what = format!("left out, because this command converts no such object of {}", self.program);
            let foreign = joined(&std::mem::take(&mut self.foreign), MAX_FOREIGN);
            self.note(&foreign, &what);
        }
        let mut conversion = Conversion { yaml: self.yaml, pools: self.pools.len(), ..Conversion::default() };
        for (weight, what, origins) in self.reports {
            let line =
                if origins.is_empty() { what } else { format!("{}: {what}", joined(&origins, MAX_NAMED)) };
            match weight {
                Weight::Note => conversion.notes.push(line),
                Weight::Warning => conversion.warnings.push(line),
                Weight::Error => conversion.errors.push(line),
            }
        }
        conversion
    }
}

/// The fields that an object sets and that nothing read, in brackets.
pub(in super::super) fn set_fields(object: &Object<'_>) -> String {
    let fields: Vec<String> = object.unread(&[]).into_iter().map(|(path, _)| path).collect();
    if fields.is_empty() { String::new() } else { format!(" ({})", fields.join(", ")) }
}

/// Names, of which the first few are written out.
fn joined(names: &[String], most: usize) -> String {
    match names.split_at_checked(most) {
        None | Some((_, [] | [_])) => names.join(", "),
        Some((first, rest)) => format!("{} and {} more", first.join(", "), rest.len()),
    }
}
