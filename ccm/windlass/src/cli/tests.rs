use super::*;

fn parse(args: &[&str]) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&command().try_get_matches_from([&["windlass"], args].concat())?)
}

#[test]
fn the_command_definition_is_consistent() {
    command().debug_assert();
}

#[test]
fn services_are_worked_on_eight_at_a_time_unless_the_admin_says_otherwise() {
    for (args, expected) in [(&["controller"][..], 8), (&["controller", "--concurrent-service-syncs=3"], 3)] {
        let Role::Controller(parsed) = parse(args).unwrap().role else { panic!("{args:?}") };
        let options = parsed.flags.options("windlass", "me".to_owned()).unwrap();
        assert_eq!(options.services.workers, expected, "{args:?}");
    }
}

#[test]
fn classless_services_are_served_unless_the_admin_says_otherwise() {
    for (args, classless) in [
        (&["controller"][..], true),
        (&["controller", "--classless-services"], true),
        (&["controller", "--classless-services=true"], true),
        (&["controller", "--classless-services=false"], false),
    ] {
        let Role::Controller(parsed) = parse(args).unwrap().role else { panic!("{args:?}") };
        assert_eq!(parsed.classless_services, classless, "{args:?}");
    }
}

#[test]
fn annotations_of_other_load_balancers_are_read_only_if_the_flag_says_so() {
    for (args, expected) in [
        (&["controller"][..], false),
        (&["controller", "--compat-annotations"], true),
        (&["controller", "--compat-annotations=true"], true),
        (&["controller", "--compat-annotations=false"], false),
    ] {
        let Role::Controller(parsed) = parse(args).unwrap().role else { panic!("{args:?}") };
        assert_eq!(parsed.compat_annotations, expected, "{args:?}");
    }
}

#[test]
fn there_is_no_status_page_unless_the_flag_says_so() {
    for (args, expected) in [
        (&["controller"][..], false),
        (&["controller", "--status-page"], true),
        (&["controller", "--status-page=false"], false),
    ] {
        let Role::Controller(parsed) = parse(args).unwrap().role else { panic!("{args:?}") };
        assert_eq!(parsed.status_page, expected, "{args:?}");
    }
}

#[test]
fn flags_that_make_no_sense_are_refused() {
    for args in [
        &["controller", "--http-address=127.0.0.1:10258"][..],
        &["controller", "--leader-elect-retry-period=2"],
        &["controller", "--log-level=loud,,=x"],
        &["agent", "--node-name=Not A Node"],
        &["agent", "--node-name="],
        &["agent", "--node-name=-n1"],
        &["agent", "--node-name=n1", "--state-dir"],
        &["agent", "--node-name=n1", "extra"],
        &["convert"],
        &["convert", "openelb"],
        &[],
    ] {
        assert!(parse(args).is_err(), "{args:?}");
    }
    assert!(parse(&["agent", "--node-name=worker-1.example.org"]).is_ok());
}

#[test]
fn what_people_ask_is_understood_and_what_makes_no_sense_is_refused() {
    for args in [
        &["status"][..],
        &["status", "-o", "json", "--context", "c"],
        &["vips", "192.0.2.10", "2001:db8::1", "--output=wide"],
        &["services", "-A", "--kubeconfig", "f"],
        &["service", "web", "-n", "shop"],
        &["explain", "shop/web", "--timeout-seconds=5"],
        &["completion", "fish"],
    ] {
        assert!(parse(args).is_ok(), "{args:?}");
    }
    for args in [
        &["status", "-o", "xml"][..],
        &["status", "n1"],
        &["services", "-A", "-n", "shop"],
        &["explain"],
        &["explain", "a", "b"],
        &["pools", "--timeout-seconds=0"],
        &["completion"],
        &["completion", "tcsh"],
    ] {
        assert!(parse(args).is_err(), "{args:?}");
    }
}

#[test]
fn as_a_plugin_of_kubectl_the_help_is_that_of_kubectl() {
    for (program, told) in [
        ("/usr/local/bin/kubectl-windlass", "Usage: kubectl windlass status"),
        ("kubectl-windlass.old", "Usage: windlass status"),
        ("/windlass", "Usage: windlass status"),
    ] {
        let help =
            named(program).try_get_matches_from([program, "status", "--help"]).unwrap_err().to_string();
        assert!(help.contains(told), "{program}: {help}");
    }
}

#[test]
fn the_manifest_for_krew_names_the_program_as_kubectl_looks_for_it() {
    let manifest = include_str!("../../../../manifests/krew/windlass.yaml");
    let manifest: serde_json::Value = serde_saphyr::from_str(manifest).unwrap();
    let platforms = manifest["spec"]["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), 2);
    for platform in platforms {
        let program = platform["bin"].as_str().unwrap();
        assert_eq!(named(program).get_bin_name(), Some("kubectl windlass"));
    }
}

#[test]
fn each_shell_gets_a_completion_that_knows_every_command() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let script = completion(shell);
        for word in ["windlass", "status", "explain", "vips", "uninstall", "kubeconfig"] {
            assert!(script.contains(word), "{shell:?}: {word}");
        }
    }
}

/// The manifests' containers, as (file, arguments, probes with the numbers of ports in place of their names).
fn containers() -> Vec<(&'static str, Vec<String>, Vec<serde_json::Value>)> {
    let files = [
        ("controller.yaml", include_str!("../../../../manifests/base/controller.yaml")),
        ("agent.yaml", include_str!("../../../../manifests/base/agent.yaml")),
    ];
    let container = |(name, yaml): (&'static str, &str)| {
        let object: serde_json::Value = serde_saphyr::from_str(yaml).unwrap();
        let container = &object["spec"]["template"]["spec"]["containers"][0];
        let args = container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap().to_owned());
        let probes = ["startupProbe", "livenessProbe", "readinessProbe"];
        let probes = probes.map(|probe| {
            let mut probe = container[probe].clone();
            let ports = container["ports"].as_array().into_iter().flatten();
            let port = ports.clone().find(|port| port["name"] == probe["httpGet"]["port"]);
            if let Some(port) = port {
                probe["httpGet"]["port"] = port["containerPort"].clone();
            }
            probe
        });
        (name, args.collect(), probes.to_vec())
    };
    files.into_iter().map(container).collect()
}

#[test]
fn the_manifests_arguments_are_accepted_and_their_probes_ask_where_it_answers() {
    for (file, args, probes) in containers() {
        // The environment's NODE_NAME stands in for the field reference; a flag says the same here.
        let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
        if args[0] == "agent" {
            args.push("--node-name=n1");
        }
        match parse(&args).unwrap_or_else(|error| panic!("{file}: {error}")).role {
            Role::Controller(args) => {
                let options = args.flags.options("windlass", "me".to_owned()).unwrap();
                assert_eq!(options.warnings, Vec::<String>::new(), "{file}");
                let port = options.serving.secure_port;
                assert!(probes.iter().all(|probe| probe["httpGet"]["port"] == port), "{file}: {probes:?}");
            }
            Role::Agent(args) => {
                assert!(args.serving.bind_address.is_loopback(), "{file}: {}", args.serving.bind_address);
                assert_eq!(args.serving.secure_port, 9859, "{file}");
                for probe in probes {
                    let command: Vec<_> = probe["exec"]["command"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|word| word.as_str().unwrap())
                        .collect();
                    let Role::Probe(asked) = parse(&command[1..]).unwrap().role else {
                        panic!("{command:?}")
                    };
                    assert_eq!((command[0], asked.socket), ("/windlass", args.socket.clone()), "{file}");
                }
            }
            Role::Vip(_)
            | Role::Probe(_)
            | Role::Convert(_)
            | Role::Uninstall(_)
            | Role::Version(_)
            | Role::Completion(_)
            | Role::Inspect(_) => panic!("{file}: another role"),
        }
    }
}

// shows: field-reports F-76
#[test]
fn no_pod_of_the_manifests_comes_to_a_node_without_linux() {
    for yaml in [
        include_str!("../../../../manifests/base/controller.yaml"),
        include_str!("../../../../manifests/base/agent.yaml"),
    ] {
        let object: serde_json::Value = serde_saphyr::from_str(yaml).unwrap();
        let selector = &object["spec"]["template"]["spec"]["nodeSelector"];
        assert_eq!(*selector, serde_json::json!({ "kubernetes.io/os": "linux" }), "{yaml}");
    }
}

#[test]
fn the_manifest_mounts_the_keys_where_the_agent_looks_and_needs_no_secret() {
    let manifest = include_str!("../../../../manifests/base/agent.yaml");
    let object: serde_json::Value = serde_saphyr::from_str(manifest).unwrap();
    let pod = &object["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| !volume["secret"].is_null()).expect("the volume of a Secret");
    let expected = serde_json::json!({
        "secretName": agent::KEYS_SECRET, "optional": true, "defaultMode": 0o400,
    });
    assert_eq!(volume["secret"], expected);
    let mounts = pod["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["name"] == volume["name"]).expect("its mount");
    assert_eq!(mount["readOnly"], true);
    let Role::Agent(args) = parse(&["agent", "--node-name=n1"]).unwrap().role else { panic!("an agent") };
    assert_eq!(args.vrrp_keys_dir, Path::new(mount["mountPath"].as_str().unwrap()));
}

/// Flags that the chart gives itself, or that would only say again what another value says.
const OF_THE_CHART: &[&str] = &[
    "cloud-config",
    "cloud-provider",
    "kubeconfig",
    "leader-elect-resource-lock",
    "leader-elect-resource-name",
    "leader-elect-resource-namespace",
    "log-format",
    "log-level",
    "logging-format",
    "node-name",
    "socket",
    "state-dir",
    "status-page",
    "v",
    // Files that no value mounts.
    "cert-dir",
    "tls-cert-file",
    "tls-private-key-file",
    "vrrp-keys-dir",
];

#[test]
fn every_flag_is_a_value_of_the_chart_or_given_by_it() {
    let schema = include_str!("../../../../manifests/chart/values.schema.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let command = command();
    for role in ["controller", "agent"] {
        let values = schema["properties"][role]["properties"]["flags"]["properties"].as_object().unwrap();
        let mut values: Vec<&str> = values.keys().map(String::as_str).collect();
        for flag in command.find_subcommand(role).unwrap().get_arguments() {
            let Some(name) = flag.get_long().filter(|name| !["help", "version"].contains(name)) else {
                continue;
            };
            if flag.get_help_heading() == Some(app::NOOP_HEADING) || OF_THE_CHART.contains(&name) {
                continue;
            }
            let value = values.iter().position(|value| *value == name);
            values.remove(value.unwrap_or_else(|| panic!("{role}: the chart has no flag {name}")));
        }
        assert_eq!(values, Vec::<&str>::new(), "{role}");
    }
}

#[test]
fn flags_of_kubectl_may_precede_the_command() {
    let moved = |line: &str| {
        let args = subcommand_first(line.split(' ').map(OsString::from).collect());
        args.into_iter().map(|arg| arg.into_string().unwrap()).collect::<Vec<_>>().join(" ")
    };
    for (given, expected) in [
        ("windlass --kubeconfig F status", "windlass status --kubeconfig F"),
        ("windlass --kubeconfig=F -n shop explain web", "windlass explain --kubeconfig=F -n shop web"),
        (
            "windlass --context dev --kubeconfig F status -o wide",
            "windlass status --context dev --kubeconfig F -o wide",
        ),
        ("windlass status --kubeconfig F", "windlass status --kubeconfig F"),
        ("windlass --version", "windlass --version"),
        ("windlass --kubeconfig F --help", "windlass --kubeconfig F --help"),
        ("windlass --kubeconfig", "windlass --kubeconfig"),
        ("windlass --kubeconfig F", "windlass --kubeconfig F"),
        ("windlass", "windlass"),
    ] {
        assert_eq!(moved(given), expected, "{given}");
        let parsed = command().try_get_matches_from(expected.split(' '));
        let is_whole = !given.ends_with("version") && !given.ends_with("help") && !given.ends_with(" F")
            || given.contains("status");
        assert_eq!(
            parsed.is_ok(),
            is_whole && given != "windlass" && given != "windlass --kubeconfig",
            "{expected}"
        );
    }
}
