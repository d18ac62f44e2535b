//! A value with the place where it was given, and what is wrong with it there.

use std::fmt;

use serde::{Deserialize, Deserializer};
use windlass_ccm::files::FileError;

/// A value as it was given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::vip) struct Given<T> {
    pub(in crate::vip) value: T,
    /// Line and column, both from 1; `None`: it stands in no file.
    position: Option<(u64, u64)>,
}

/// A scalar: its text, whatever YAML would take it for.
pub(in crate::vip) type Text = Given<String>;

impl<T> Given<T> {
    /// One that stands in no file.
    pub(in crate::vip) const fn by_flag(value: T) -> Self {
        Self { value, position: None }
    }

    /// Its place, without the value.
    pub(super) const fn place(&self) -> Given<()> {
        Given { value: (), position: self.position }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = serde_saphyr::Spanned::deserialize(deserializer)?;
        let at = spanned.referenced;
        Ok(Self { value: spanned.value, position: (at.line() > 0).then(|| (at.line(), at.column())) })
    }
}

/// Reason why there are no settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

impl SettingsError {
    /// Returns the error for a file that cannot be read.
    pub(super) fn unreadable(error: &FileError) -> Self {
        Self(format!("{error}; name the file of the settings, as --config=/etc/windlass/vip.yaml"))
    }

    /// Returns the error for a flag, with problem and remedy.
    pub(in crate::vip) fn by_flag(flag: &str, problem: &str, remedy: &str) -> Self {
        Self(format!("{flag}: {problem}: {remedy}"))
    }

    /// Returns the error for a file that holds no settings, with the position of the problem.
    pub(super) fn no_settings(name: &str, position: Option<(u64, u64)>, problem: &str) -> Self {
        Self(format!("{}: {problem}", in_file(name, position)))
    }
}

fn in_file(name: &str, position: Option<(u64, u64)>) -> String {
    match position {
        Some((line, column)) => format!("{name}:{line}:{column}"),
        None => name.to_owned(),
    }
}

/// Origin of a draft.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// This file.
    File(&'a str),
    /// The command line.
    Flags,
}

/// The flags of the fields, by their paths without the numbers of items.
const FLAGS: &[(&str, &str)] = &[
    ("keysDir", "--keys-dir"),
    ("bgp", "--bgp-asn"),
    ("bgp.localASN", "--bgp-asn"),
    ("bgp.peers", "--bgp-peer"),
    ("bgp.peers.address", "--bgp-peer"),
    ("bgp.peers.peerASN", "--bgp-peer"),
    ("bgp.peers.passwordFile", "--bgp-password-file"),
    ("bgp.peers.bfd", "--bgp-bfd"),
    ("vips", "--address"),
    ("vips.address", "--address"),
    ("vips.protocols", "--protocol"),
    ("vips.interface", "--interface"),
    ("vips.ports", "--port"),
    ("vips.vrid", "--vrid"),
    ("vips.priority", "--priority"),
    ("vips.preempt", "--preempt"),
    ("vips.advertIntervalMs", "--advert-interval-ms"),
    ("vips.peers", "--peer"),
    ("vips.multicast", "--multicast"),
    ("vips.bind", "--bind"),
    ("vips.checks", "--check"),
    ("vips.checks.http.url", "--check"),
    ("vips.checks.https.url", "--check"),
    ("vips.checks.http.expect", "--check-expect"),
    ("vips.checks.https.expect", "--check-expect"),
    ("vips.checks.https.caFile", "--check-ca"),
    ("vips.checks.https.serverName", "--check-server-name"),
    ("vips.checks.https.certificateSha256", "--check-certificate-sha256"),
    ("vips.checks.tcp.address", "--check"),
    ("vips.checks.grpc.address", "--check"),
    ("vips.checks.grpc.service", "--check"),
    ("vips.checks.command.command", "--check"),
    ("vips.checks.intervalMs", "--check-interval-ms"),
    ("vips.checks.timeoutMs", "--check-timeout-ms"),
    ("vips.checks.rise", "--rise"),
    ("vips.checks.fall", "--fall"),
    ("vips.balance", "--backend"),
    ("vips.balance.backends", "--backend"),
    ("vips.balance.source", "--source"),
];

/// A field of a draft: where the draft comes from, and the field's path in it.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    source: Source<'a>,
    path: String,
}

impl<'a> Field<'a> {
    /// The draft itself.
    pub(super) const fn root(source: Source<'a>) -> Self {
        Self { source, path: String::new() }
    }

    /// The field of this name in it.
    pub(super) fn field(&self, name: &str) -> Self {
        let dot = if self.path.is_empty() { "" } else { "." };
        Self { source: self.source, path: format!("{}{dot}{name}", self.path) }
    }

    /// The item of this number in it, from 0.
    pub(super) fn item(&self, number: usize) -> Self {
        Self { source: self.source, path: format!("{}[{number}]", self.path) }
    }

    /// Returns true if it was given on the command line.
    pub(super) const fn is_of_flags(&self) -> bool {
        matches!(self.source, Source::Flags)
    }

    /// Returns the error for a value that was given here, with problem and remedy.
    pub(super) fn mistake<T>(
        &self,
        given: &Given<T>,
        problem: impl fmt::Display,
        remedy: impl fmt::Display,
    ) -> SettingsError {
        let name = self.name();
        SettingsError(match self.source {
            Source::File(file) => format!("{}: {name}: {problem}: {remedy}", in_file(file, given.position)),
            Source::Flags => format!("{name}: {problem}: {remedy}"),
        })
    }

    /// Returns the last part of its name, as it is called beside its neighbours.
    pub(super) fn short_name(&self) -> String {
        let name = self.name();
        name.rsplit('.').next().unwrap_or(&name).to_owned()
    }

    /// Returns its name for the user: the path in the file, or the flag.
    fn name(&self) -> String {
        match self.source {
            Source::File(_) if self.path.is_empty() => "the file".to_owned(),
            Source::File(_) => self.path.clone(),
            Source::Flags => {
                let plain = self.path.split('.').map(|part| part.split('[').next().unwrap_or(part));
                let plain = plain.collect::<Vec<_>>().join(".");
                let flag = FLAGS.iter().find(|(path, _)| *path == plain).map(|(_, flag)| (*flag).to_owned());
                flag.unwrap_or(plain)
            }
        }
    }
}

/// A value in a message: bare where that is clear.
pub(super) fn shown(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/[]%".contains(c);
    if !text.is_empty() && text.len() <= 200 && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let start: String = text.chars().take(200).collect();
    format!("{start:?}{}", if start.len() < text.len() { "…" } else { "" })
}
