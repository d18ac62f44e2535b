use clap::{CommandFactory as _, Parser};

use super::super::noop::NOOP_FLAGS;
use super::*;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
}

fn parse(args: &[&str]) -> Result<Flags, clap::Error> {
    Cli::try_parse_from([&["ccm"], args].concat()).map(|cli| cli.flags)
}

#[test]
fn the_flags_are_consistent() {
    Cli::command().debug_assert();
}

// shows: ccm-contract 287
#[test]
fn every_standard_flag_is_known_with_its_default_287() {
    // Service-contract §5.2. `None`: no default, or one that has no effect here.
    let rows: [(&str, Option<&str>); 59] = [
        ("cloud-provider", None),
        ("cloud-config", None),
        ("kubeconfig", None),
        ("master", None),
        ("cluster-name", Some("kubernetes")),
        ("controllers", Some("*")),
        ("concurrent-service-syncs", Some("1")),
        ("concurrent-node-syncs", Some("1")),
        ("concurrent-node-status-updates", Some("0")),
        ("concurrent-node-lifecycle-syncs", Some("16")),
        ("node-monitor-period", Some("5s")),
        ("node-status-update-frequency", Some("5m")),
        ("route-reconciliation-period", None),
        ("configure-cloud-routes", None),
        ("allocate-node-cidrs", None),
        ("cluster-cidr", None),
        ("cidr-allocator-type", None),
        ("allow-untagged-cloud", None),
        ("use-service-account-credentials", None),
        ("leader-elect", Some("true")),
        ("leader-elect-lease-duration", Some("15s")),
        ("leader-elect-renew-deadline", Some("10s")),
        ("leader-elect-retry-period", Some("2s")),
        ("leader-elect-resource-lock", Some("leases")),
        ("leader-elect-resource-name", Some("cloud-controller-manager")),
        ("leader-elect-resource-namespace", Some("kube-system")),
        ("min-resync-period", None),
        ("kube-api-qps", None),
        ("kube-api-burst", None),
        ("kube-api-content-type", None),
        ("controller-start-interval", Some("0s")),
        ("profiling", None),
        ("contention-profiling", None),
        ("bind-address", Some("0.0.0.0")),
        ("secure-port", Some("10258")),
        ("cert-dir", Some("")),
        ("tls-cert-file", Some("")),
        ("tls-private-key-file", Some("")),
        ("tls-min-version", Some("")),
        ("tls-cipher-suites", None),
        ("tls-sni-cert-key", None),
        ("authentication-kubeconfig", None),
        ("authorization-kubeconfig", None),
        ("authorization-always-allow-paths", Some("/healthz,/readyz,/livez")),
        ("authentication-skip-lookup", None),
        ("authentication-tolerate-lookup-failure", None),
        ("authentication-token-webhook-cache-ttl", Some("10s")),
        ("authorization-webhook-cache-authorized-ttl", Some("10s")),
        ("authorization-webhook-cache-unauthorized-ttl", Some("10s")),
        ("requestheader-client-ca-file", None),
        ("requestheader-allowed-names", None),
        ("requestheader-username-headers", None),
        ("requestheader-group-headers", None),
        ("client-ca-file", None),
        ("webhook-secure-port", None),
        ("feature-gates", None),
        ("v", Some("0")),
        ("logging-format", Some("text")),
        ("vmodule", None),
    ];
    let command = Cli::command();
    for (name, default) in rows {
        let flag = command.get_arguments().find(|flag| flag.get_long() == Some(name));
        let flag = flag.unwrap_or_else(|| panic!("--{name} is unknown"));
        let defaults = flag.get_default_values();
        assert!(defaults.len() <= 1, "{name}");
        let found = defaults.first().map(|value| value.to_str().unwrap());
        assert_eq!(found, default, "{name}");
        // What is written is what is read: with the default given by hand nothing changes.
        if let Some(default) = default {
            let by_hand =
                parse(&[&format!("--{name}={default}")]).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(format!("{by_hand:?}"), format!("{:?}", parse(&[]).unwrap()), "{name}");
        }
    }
    for flag in NOOP_FLAGS {
        let known = command.get_arguments().filter(|known| known.get_long() == Some(flag.name)).count();
        assert_eq!(known, 1, "{}", flag.name);
    }
}

#[test]
fn leader_elect_can_be_bare_true_or_false_as_for_every_cloud_controller_manager() {
    for (args, expected) in [
        (&[][..], true),
        (&["--leader-elect"], true),
        (&["--leader-elect=true"], true),
        (&["--leader-elect=T"], true),
        (&["--leader-elect=false"], false),
        (&["--leader-elect=0"], false),
        (&["--leader-elect=true", "--leader-elect=false"], false),
    ] {
        assert_eq!(parse(args).unwrap().election.leader_elect, expected, "{args:?}");
    }
    for args in [&["--leader-elect=yes"][..], &["--leader-elect", "false"], &["--leader-elect="]] {
        assert!(parse(args).is_err(), "{args:?}");
    }
}

#[test]
fn controllers_are_a_list_in_one_flag_or_several() {
    for (args, expected) in [
        (&[][..], &["*"][..]),
        (&["--controllers=*,-route"], &["*", "-route"]),
        (&["--controllers", "-route,*"], &["-route", "*"]),
        (&["--controllers=service", "--controllers=cloud-node"], &["service", "cloud-node"]),
        (&["--controllers="], &[""]),
    ] {
        assert_eq!(parse(args).unwrap().controllers.controllers, expected, "{args:?}");
    }
}

#[test]
fn verbosity_is_written_in_all_ways_of_go() {
    for args in [&["-v", "4"][..], &["-v=4"], &["-v4"], &["--v=4"], &["--v", "4"], &["--v=2", "-v=4"]] {
        assert_eq!(parse(args).unwrap().logging.verbosity, 4, "{args:?}");
    }
    assert_eq!(parse(&["--logging-format=json"]).unwrap().logging.logging_format, LogFormat::Json);
}

#[test]
fn what_no_cloud_controller_manager_knows_is_an_error() {
    let rows = [
        (&["positional"][..], "positional"),
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--leader-elect-lease-duration=15"], "as 1m30s, 300ms or 0"),
        (&["--leader-elect-retry-period=-2s"], "it is negative"),
        (&["--node-monitor-period", "-5s"], "it is negative"),
        (&["--logging-format=xml"], "json"),
        (&["--secure-port=65536"], "65536"),
        (&["--bind-address=here"], "here"),
        (&["--kube-api-qps=many"], "requests a second"),
        (&["--concurrent-service-syncs=none"], "none"),
    ];
    for (args, part) in rows {
        let error = parse(args).expect_err(part).to_string();
        assert!(error.contains(part), "{args:?}: {error}");
    }
}
