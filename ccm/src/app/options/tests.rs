use clap::Parser;

use super::*;
use crate::serving::{TlsSource, TlsVersion};

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
}

fn options(args: &[&str]) -> Result<ManagerOptions, String> {
    let cli =
        Cli::try_parse_from([&["ccm"], args].concat()).unwrap_or_else(|error| panic!("{args:?}: {error}"));
    cli.flags.options("static", "me".to_owned()).map_err(|error| error.to_string())
}

// shows: ccm-contract 287
#[test]
fn without_flags_it_is_as_kubernetes_has_it_287() {
    let options = options(&[]).unwrap();
    assert_eq!(options.services.cluster_name, "kubernetes");
    assert_eq!((options.services.workers, options.nodes.workers), (1, 1));
    assert_eq!(options.nodes.refresh_period, Duration::from_mins(5));
    assert_eq!(options.node_monitor_period, Duration::from_secs(5));
    assert_eq!(options.start_interval, Duration::ZERO);
    assert_eq!(options.rate, None);
    assert_eq!((options.cloud_config, options.kubeconfig, options.master), (None, None, None));
    assert_eq!(options.controllers.len(), 3, "all but the routes: {:?}", options.controllers);
    let (election, expected) = (options.election.unwrap(), ElectionOptions::new("me"));
    assert_eq!(format!("{election:?}"), format!("{expected:?}"));
    assert_eq!(options.warnings, Vec::<String>::new());
}

#[test]
fn the_default_is_what_no_flag_says() {
    let without = options(&["--leader-elect=false"]).unwrap();
    assert_eq!(format!("{without:?}"), format!("{:?}", ManagerOptions::default()));
}

// shows: ccm-contract 285, 286
#[test]
fn flags_that_make_no_sense_are_refused_with_the_value_and_the_remedy_285_286() {
    let rows = [
        ("--concurrent-node-syncs=-5", "concurrent-node-syncs must be a positive number", "1 or more"),
        ("--concurrent-node-syncs=0", "concurrent-node-syncs must be a positive number", "1 or more"),
        (
            "--concurrent-node-status-updates=-1",
            "concurrent-node-status-updates cannot be a negative number",
            "0 or more",
        ),
        (
            "--concurrent-node-lifecycle-syncs=0",
            "concurrent-node-lifecycle-syncs must be a positive number",
            "1 or more",
        ),
        ("--concurrent-service-syncs=0", "concurrent-service-syncs must be a positive number", "1 or more"),
        ("--node-monitor-period=0s", "node-monitor-period must be a positive number", "1 or more"),
        ("--node-status-update-frequency=0s", "must be a positive number", "1 or more"),
        ("--kube-api-qps=0", "0 calls per second cannot be kept to", "above 0"),
        ("--kube-api-qps=nan", "NaN calls per second cannot be kept to", "above 0"),
        ("--kube-api-burst=0", "a burst of 0 lets no call through", "above 0"),
        ("--cloud-provider=external", "is for kubelets", "--cloud-provider=static"),
        ("--cloud-provider=aws", "this is the cloud-controller-manager of static", "--cloud-provider=static"),
        ("--controllers=*,x", "\"x\" is not in the list of known controllers", "service-lb-controller"),
        ("--leader-elect-resource-lock=endpoints", "only leases are used as locks", "give leases"),
        ("--leader-elect-renew-deadline=15s", "15s is not shorter than lease duration 15s", "shorten"),
        ("--tls-cert-file=a", "--tls-private-key-file is not", "needs both"),
        ("--tls-private-key-file=a", "--tls-cert-file is not", "needs both"),
        ("--tls-min-version=VersionTLS11", "is broken and not spoken", "give VersionTLS12 or VersionTLS13"),
        ("--authorization-always-allow-paths=/a*b", "a * that is not its end", "at the end"),
        ("--leader-elect-retry-period=10s", "is not between 0 and renew deadline 10s", "shorten"),
    ];
    for (flag, reason, remedy) in rows {
        let error = options(&[flag]).expect_err(flag);
        assert!(error.contains(reason) && error.contains(remedy), "{flag}: {error}");
        let name = flag.split('=').next().unwrap();
        assert!(error.contains(name) || name.starts_with("--leader-elect-re"), "{flag}: {error}");
    }
}

// shows: ccm-contract 286
#[test]
fn node_updates_are_as_many_as_node_syncs_unless_more_are_asked_for_286() {
    for (syncs, updates, workers) in [("3", "0", 3), ("1", "4", 4), ("4", "2", 4)] {
        let flags = [
            &*format!("--concurrent-node-syncs={syncs}"),
            &format!("--concurrent-node-status-updates={updates}"),
        ];
        assert_eq!(options(&flags).unwrap().nodes.workers, workers, "{flags:?}");
    }
}

#[test]
fn a_flag_without_value_is_not_given() {
    let options = options(&["--cloud-config=", "--kubeconfig=", "--master=", "--cloud-provider="]).unwrap();
    assert_eq!((options.cloud_config, options.kubeconfig, options.master), (None, None, None));
}

// shows: ccm-contract 285
#[test]
fn the_election_is_as_the_flags_say_and_may_be_off() {
    let flags = [
        "--cloud-provider=static",
        "--leader-elect-lease-duration=1m",
        "--leader-elect-renew-deadline=40s",
        "--leader-elect-retry-period=500ms",
        "--leader-elect-resource-name=other",
        "--leader-elect-resource-namespace=here",
    ];
    let election = options(&flags).unwrap().election.unwrap();
    assert_eq!((&*election.namespace, &*election.name, &*election.identity), ("here", "other", "me"));
    assert_eq!(election.lease_duration, Duration::from_mins(1));
    assert_eq!(election.renew_deadline, Duration::from_secs(40));
    assert_eq!(election.retry_period, Duration::from_millis(500));
    // What is not used is not judged.
    assert!(options(&["--leader-elect=false", "--leader-elect-retry-period=1h"]).unwrap().election.is_none());
}

#[test]
fn the_https_port_is_as_the_flags_say() {
    let serving = |flags: &[&str]| options(flags).unwrap().serving;
    assert_eq!(format!("{:?}", serving(&[])), format!("{:?}", ServingOptions::default()));
    assert_eq!(serving(&["--secure-port=0"]).secure_port, 0);
    let folder = "--cert-dir=/run/certs";
    assert_eq!(serving(&[folder]).tls, TlsSource::Folder("/run/certs".into()));
    let files = TlsSource::Files { cert: "a.crt".into(), key: "a.key".into() };
    assert_eq!(serving(&[folder, "--tls-cert-file=a.crt", "--tls-private-key-file=a.key"]).tls, files);
    let other = serving(&[
        "--bind-address=::1",
        "--tls-min-version=VersionTLS13",
        "--authorization-always-allow-paths=/healthz,/metrics*",
        "--authentication-token-webhook-cache-ttl=1m",
        "--authorization-webhook-cache-authorized-ttl=2m",
        "--authorization-webhook-cache-unauthorized-ttl=3m",
    ]);
    assert!(other.bind_address.is_loopback());
    assert_eq!(other.min_tls_version, TlsVersion::Tls13);
    assert_eq!(Ok(other.auth.always_allow_paths), "/healthz,/metrics*".parse());
    let minutes = [other.auth.token_ttl, other.auth.authorized_ttl, other.auth.unauthorized_ttl];
    assert_eq!(minutes, [1, 2, 3].map(Duration::from_mins));
}

#[test]
fn requests_are_limited_only_if_asked_for() {
    let rate = |per_second, burst| Some(RateLimit::new(per_second, burst).unwrap());
    for (flags, expected) in [
        (&[][..], None),
        (&["--kube-api-qps=50"], rate(50.0, 30)),
        (&["--kube-api-qps=0.5", "--kube-api-burst=1"], rate(0.5, 1)),
        (&["--kube-api-burst=10"], rate(20.0, 10)),
        (&["--kube-api-qps=-1"], None),
    ] {
        assert_eq!(options(flags).unwrap().rate, expected, "{flags:?}");
    }
}

#[test]
fn what_has_no_effect_is_told() {
    for (flag, parts) in [
        ("--cluster-cidr=10.0.0.0/8", &["--cluster-cidr has no effect", "pod CIDRs"][..]),
        ("--configure-cloud-routes=false", &["--configure-cloud-routes has no effect"]),
        ("--controllers=*,route", &["node-route-controller is not started"]),
        ("--controllers=-service", &["selects no controller"]),
    ] {
        let warnings = options(&[flag]).unwrap().warnings;
        assert_eq!(warnings.len(), 1, "{flag}: {warnings:?}");
        assert!(parts.iter().all(|part| warnings[0].contains(part)), "{flag}: {warnings:?}");
    }
}
