//! Flags of other cloud-controller-managers that have no effect here: people paste manifests. Each is accepted with any value and causes a
//! warning with the reason. A flag that is not in the table stays an error.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

#[cfg(test)]
mod tests;

/// Form of a flag: with an optional or a required value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlagForm {
    /// `--profiling` or `--profiling=false`.
    Switch,
    /// `--cluster-cidr=10.0.0.0/8` or `--cluster-cidr 10.0.0.0/8`.
    Value,
}

/// A flag and why it has no effect.
#[derive(Debug, PartialEq, Eq)]
pub struct NoopFlag {
    /// The flag, without dashes.
    pub name: &'static str,
    /// Reason that the flag has no effect.
    pub reason: &'static str,
    form: FlagForm,
}

impl NoopFlag {
    /// The warning.
    pub fn warning(&self) -> String {
        format!("--{} has no effect: {}", self.name, self.reason)
    }
}

const fn switch(name: &'static str, reason: &'static str) -> NoopFlag {
    NoopFlag { name, reason, form: FlagForm::Switch }
}

const fn value(name: &'static str, reason: &'static str) -> NoopFlag {
    NoopFlag { name, reason, form: FlagForm::Value }
}

const ROUTES: &str = "routes between pods are the network plugin's";
const POD_CIDRS: &str = "pod CIDRs are given by kube-controller-manager or the network plugin";
const ONE_ACCOUNT: &str = "all controllers use the account of this process";
const WATCHES: &str = "watches are never replayed, what failed comes back by itself";
const JSON: &str = "JSON is spoken with the API server";
const PROFILER: &str = "there is no profiler in this process";
const WEBHOOKS: &str = "no webhook is served";
const GATES: &str = "there are no feature gates";
const CIPHERS: &str = "cipher suites and curves are those that rustls holds safe";
const OWN_ACCOUNT: &str =
    "callers are judged by the API server that this process works for, with its own account";
const TOKENS: &str = "callers show a bearer token: client certificates are not asked for";
const FRONT_PROXY: &str = "no proxy in front is believed to have checked who asks";
const SOCKETS: &str = "the port is this process' alone, with HTTP/1.1";
const METRICS: &str = "every metric is shown, with its labels";
const LOG: &str = "the log goes to standard error, line by line; -v and --logging-format choose what and how";
const PLAIN: &str = "plain HTTP is not served; --bind-address and --secure-port name the HTTPS port";
const MIGRATION: &str = "kube-controller-manager has no cloud controllers any more to migrate from";

/// The flags (service-contract §5.2, and what older releases had).
pub const NOOP_FLAGS: &[NoopFlag] = &[
    switch("add-dir-header", LOG),
    value("address", PLAIN),
    switch("allocate-node-cidrs", POD_CIDRS),
    value("allow-metric-labels", METRICS),
    value("allow-metric-labels-manifest", METRICS),
    switch("allow-untagged-cloud", "no cluster needs a tag here"),
    switch("alsologtostderr", LOG),
    value("authentication-kubeconfig", OWN_ACCOUNT),
    switch("authentication-skip-lookup", TOKENS),
    switch("authentication-tolerate-lookup-failure", TOKENS),
    value("authorization-kubeconfig", OWN_ACCOUNT),
    value("cidr-allocator-type", POD_CIDRS),
    value("client-ca-file", TOKENS),
    value("cluster-cidr", POD_CIDRS),
    switch("configure-cloud-routes", ROUTES),
    switch("contention-profiling", PROFILER),
    switch("disable-http2-serving", SOCKETS),
    value("disabled-metrics", METRICS),
    value("emulated-version", GATES),
    switch("emulation-forward-compatible", GATES),
    switch("enable-leader-migration", MIGRATION),
    value("external-cloud-volume-plugin", "volumes are the CSI drivers'"),
    value("feature-gates", GATES),
    value("http2-max-streams-per-connection", SOCKETS),
    value("kube-api-content-type", JSON),
    value("leader-migration-config", MIGRATION),
    value("log-backtrace-at", LOG),
    value("log-dir", LOG),
    value("log-file", LOG),
    value("log-file-max-size", LOG),
    value("log-flush-frequency", LOG),
    value("log-json-info-buffer-size", LOG),
    switch("log-json-split-stream", LOG),
    value("log-text-info-buffer-size", LOG),
    switch("log-text-split-stream", LOG),
    switch("logtostderr", LOG),
    value("min-resync-period", WATCHES),
    value("node-cidr-mask-size", POD_CIDRS),
    value("node-cidr-mask-size-ipv4", POD_CIDRS),
    value("node-cidr-mask-size-ipv6", POD_CIDRS),
    switch("one-output", LOG),
    switch("permit-address-sharing", SOCKETS),
    switch("permit-port-sharing", SOCKETS),
    value("port", PLAIN),
    switch("profiling", PROFILER),
    value("requestheader-allowed-names", FRONT_PROXY),
    value("requestheader-client-ca-file", FRONT_PROXY),
    value("requestheader-extra-headers-prefix", FRONT_PROXY),
    value("requestheader-group-headers", FRONT_PROXY),
    value("requestheader-uid-headers", FRONT_PROXY),
    value("requestheader-username-headers", FRONT_PROXY),
    value("route-reconciliation-period", ROUTES),
    value("service-cluster-ip-range", POD_CIDRS),
    value("show-hidden-metrics-for-version", METRICS),
    switch("skip-headers", LOG),
    switch("skip-log-headers", LOG),
    value("stderrthreshold", LOG),
    value("tls-cipher-suites", CIPHERS),
    value("tls-curve-preferences", CIPHERS),
    value("tls-sni-cert-key", "one certificate is served, that of --tls-cert-file"),
    switch("use-service-account-credentials", ONE_ACCOUNT),
    value("vmodule", LOG),
    value("webhook-bind-address", WEBHOOKS),
    value("webhook-cert-dir", WEBHOOKS),
    value("webhook-secure-port", WEBHOOKS),
    value("webhook-tls-cert-file", WEBHOOKS),
    value("webhook-tls-cipher-suites", WEBHOOKS),
    value("webhook-tls-min-version", WEBHOOKS),
    value("webhook-tls-private-key-file", WEBHOOKS),
    value("webhook-tls-sni-cert-key", WEBHOOKS),
    value("webhooks", WEBHOOKS),
];

/// Heading of these flags in `--help`.
pub const NOOP_HEADING: &str = "Accepted without effect";

/// Flags of [`NOOP_FLAGS`] that were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnoredFlags(Vec<&'static NoopFlag>);

impl IgnoredFlags {
    /// One sentence for each.
    pub fn warnings(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|flag| flag.warning())
    }
}

impl Args for IgnoredFlags {
    fn augment_args(mut command: Command) -> Command {
        for flag in NOOP_FLAGS {
            let arg = Arg::new(flag.name).long(flag.name).help(flag.reason).help_heading(NOOP_HEADING);
            let arg = arg.hide_short_help(true).value_name("VALUE").action(ArgAction::Append);
            command = command.arg(match flag.form {
                FlagForm::Switch => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
                FlagForm::Value => arg.num_args(1).allow_hyphen_values(true),
            });
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for IgnoredFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |flag: &&NoopFlag| matches.value_source(flag.name) == Some(ValueSource::CommandLine);
        Ok(Self(NOOP_FLAGS.iter().filter(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
