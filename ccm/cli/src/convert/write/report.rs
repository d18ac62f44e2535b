//! Reports on standard error: each field that nothing read, and one line for all objects with the same message.

use std::fmt::Display;

use super::super::Conversion;
use super::super::fields::{Object, pattern, shown};
use super::{Printed, Writer};

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

/// Position in the input that reports name: an object, a part of one, or several objects.
#[derive(Clone)]
pub(in super::super) struct Place<'w> {
    pub(super) writer: &'w Writer,
    origin: String,
}

impl Writer {
    pub(in super::super) fn at(&self, origin: impl Into<String>) -> Place<'_> {
        Place { writer: self, origin: origin.into() }
    }

    /// Records an object of another program.
    pub(in super::super) fn foreign(&self, origin: String) {
        self.foreign.borrow_mut().push(origin);
    }

    /// Takes everything that was printed and reported.
    pub(in super::super) fn finish(&self) -> Conversion {
        let foreign = self.foreign.take();
        if !foreign.is_empty() {
            let what = format!("left out, because this command converts no such object of {}", self.program);
            self.at(joined(&foreign, MAX_FOREIGN)).note(what);
        }
        let Printed { yaml, pools, .. } = self.printed.take();
        let mut conversion = Conversion { yaml, pools: pools.len(), ..Conversion::default() };
        for (weight, what, origins) in self.reports.take() {
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

impl Place<'_> {
    pub(in super::super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Another position of the same input.
    pub(in super::super) fn at(&self, origin: impl Into<String>) -> Self {
        self.writer.at(origin)
    }

    /// The part of this name, as a field; the whole if the name is empty.
    pub(in super::super) fn part(&self, name: &str) -> Self {
        let separator = if name.is_empty() { "" } else { ": " };
        self.at(format!("{}{separator}{name}", self.origin))
    }

    /// Reports a fact by which nothing is lost.
    pub(in super::super) fn note(&self, what: impl Into<String>) {
        self.report(Weight::Note, what.into());
    }

    /// Reports a setting that was not converted, or that means something else now.
    pub(in super::super) fn warn(&self, what: impl Into<String>) {
        self.report(Weight::Warning, what.into());
    }

    /// Reports what was left out.
    pub(in super::super) fn refuse(&self, why: impl Display) {
        self.report(Weight::Error, format!("{why}. It was left out"));
    }

    /// Adds a report: one line for all objects with the same message.
    fn report(&self, weight: Weight, what: String) {
        let mut reports = self.writer.reports.borrow_mut();
        let same = |report: &&mut (Weight, String, Vec<String>)| report.0 == weight && report.1 == what;
        match reports.iter_mut().rev().take(MAX_LOOK_BACK).find(same) {
            Some((_, _, origins)) if origins.last() == Some(&self.origin) => {}
            Some((_, _, origins)) => origins.push(self.origin.clone()),
            None => reports.push((weight, what, vec![self.origin.clone()])),
        }
    }

    /// Reports every field that is set and that nothing read: `known` has the consequence and the nearest thing to do.
    pub(in super::super) fn unread(&self, object: &Object<'_>, known: &[(&str, &str)]) {
        for (path, value) in object.unread(known) {
            let pattern = pattern(&path);
            let is_it = |field: &str| {
                pattern.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let said = known.iter().find(|(field, _)| is_it(field)).map_or(
                "Windlass does not know the field, so it has no effect. Look for the nearest field of a VirtualIPPool or an Announcement",
                |(_, said)| said,
            );
            self.warn(format!("{path} ({}) is not converted: {said}", shown(value)));
        }
    }

    /// Reports a pool of which `why` says that only BGP announces it.
    pub(in super::super) fn is_bgp_alone(&self, why: &str) {
        self.warn(format!(
            "{why}, which Windlass does not speak: the VirtualIPPool has autoAssign: false, so only Services that name it get its \
             addresses. Keep {} for it, or set autoAssign: true if its addresses are in a subnet of the nodes",
            self.writer.program
        ));
    }

    /// Reports an object of which nothing is converted, with the fields that it sets.
    pub(in super::super) fn unconverted(&self, object: &Object<'_>, why: &str) {
        self.warn(format!("it is not converted{}: {why}", set_fields(object)));
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
