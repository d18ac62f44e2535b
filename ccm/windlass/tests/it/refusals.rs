//! What is wrong is named with its value, its reason and what to do; no trace, no panic.

use std::net::TcpListener;

use crate::support::{Folder, output, windlass};

/// One sentence on stderr that names everything in `parts`, and the exit code.
fn refuses(args: &[&str], code: i32, parts: &[&str]) {
    let output = output(args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{args:?}: '{part}' is missing in: {stderr}");
    }
    for trace in ["panicked", "stack backtrace", "RUST_BACKTRACE", "Error {"] {
        assert!(!stderr.contains(trace), "{args:?}: {stderr}");
    }
    if code == 1 {
        let own: Vec<&str> = stderr.lines().filter(|line| line.starts_with("windlass: ")).collect();
        assert_eq!(own.len(), 1, "{args:?}: {stderr}");
        assert!(stderr.ends_with(&format!("{}\n", own[0])), "the sentence is the last word: {stderr}");
    }
}

#[test]
fn the_build_is_told() {
    let printed = |args: &[&str]| {
        let output = output(args);
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = printed(&["version"]);
    let first = concat!("windlass ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(printed(&["-V"]), first);
    assert!(text.starts_with(&format!("{first}commit: ")), "{text}");
    assert_eq!(printed(&["--version"]), text);
    let json: serde_json::Value = serde_json::from_str(&printed(&["version", "-o", "json"])).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    for what in ["rustc", "target"] {
        let told = json[what].as_str().unwrap();
        assert!(told != "unknown" && text.contains(&format!("\n{what}: {told}\n")), "{what}: {text}");
    }
}

#[test]
fn bad_usage_is_refused_with_code_2() {
    refuses(&["agent", "--no-such-flag"], 2, &["--no-such-flag"]);
    refuses(&["agent", "--node-nam=n1"], 2, &["--node-nam", "--node-name"]);
    refuses(&["agent"], 2, &["--node-name"]);
    refuses(&["agent", "--node-name", "N 1"], 2, &["'N 1'", "kubectl get nodes"]);
    refuses(&["controller", "positional"], 2, &["positional"]);
    refuses(&["controller", "--cloud-provider=aws"], 2, &["aws", "windlass"]);
    refuses(
        &["controller", "--cloud-provider=external"],
        2,
        &["external", "kubelets", "--cloud-provider=windlass"],
    );
    refuses(&["controller", "--controllers=x"], 2, &["\"x\" is not in the list of known controllers"]);
    refuses(
        &["controller", "--concurrent-node-syncs=0"],
        2,
        &["concurrent-node-syncs must be a positive number"],
    );
    refuses(&["controller", "--concurrent-service-syncs=none"], 2, &["none"]);
    refuses(&["controller", "--leader-elect-lease-duration=15"], 2, &["'15'", "1m30s"]);
    refuses(&["controller", "--log-format=xml"], 2, &["xml", "json"]);
    refuses(&["elevator"], 2, &["elevator"]);
}

#[test]
fn a_kubeconfig_that_is_none_is_refused_in_both_roles() {
    let folder = Folder::new();
    let missing = folder.path().join("missing.conf");
    let missing = missing.to_str().unwrap();
    let bad_yaml = folder.file("bad.conf", "clusters: [");
    let text = folder.file("text.conf", "just words");
    let empty = folder.file("empty.conf", "");
    let no_context = folder.file(
        "no-context.conf",
        "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n",
    );
    let bad_url = std::fs::read_to_string(folder.unreachable_kubeconfig()).unwrap().replace("http://", "::");
    let bad_url = folder.file("bad-url.conf", &bad_url);
    let directory = folder.path().to_str().unwrap();
    let state = folder.path().join("state");
    let state = format!("--state-dir={}", state.display());
    for (file, reason) in [
        (missing, "No such file"),
        (&bad_yaml, "not a kubeconfig"),
        (&text, "not a kubeconfig"),
        (&empty, "cluster"),
        (&no_context, "context"),
        (&bad_url, "url"),
        (directory, "directory"),
    ] {
        let flag = format!("--kubeconfig={file}");
        refuses(&["controller", "--secure-port=0", &flag], 1, &[file, reason, "--kubeconfig"]);
        refuses(
            &["agent", "--node-name=n1", "--secure-port=0", &state, &flag],
            1,
            &[file, reason, "--kubeconfig"],
        );
    }
}

#[test]
fn outside_a_cluster_a_kubeconfig_is_asked_for_and_the_environment_variable_is_not_used() {
    let folder = Folder::new();
    let kubeconfig = folder.unreachable_kubeconfig();
    let args = ["controller", "--secure-port=0"];
    let output = windlass().args(args).env("KUBECONFIG", kubeconfig).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("--kubeconfig FILE") && !stderr.contains("127.0.0.1:1"), "{stderr}");
}

#[test]
fn the_controller_names_the_api_server_that_it_cannot_reach() {
    let folder = Folder::new();
    let kubeconfig = folder.unreachable_kubeconfig();
    refuses(
        &["controller", "--secure-port=0", "--kubeconfig", &kubeconfig],
        1,
        &["http://127.0.0.1:1", &kubeconfig, "Connection refused", "check that it runs"],
    );
}

#[test]
fn a_pod_asks_the_api_server_that_its_environment_names_whoever_wrote_it() {
    let command = |host| {
        let mut command = windlass();
        command.args(["controller", "--secure-port=0"]);
        command.env("KUBERNETES_SERVICE_HOST", host).env("KUBERNETES_SERVICE_PORT", "6443");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    // There is no service account here; that it is missed shows that the variables were taken.
    assert!(command("192.0.2.10").contains("/var/run/secrets/kubernetes.io/serviceaccount/token"));
    assert!(command("not a host").contains("KUBERNETES_SERVICE_HOST \"not a host\" is not a host"));
}

#[test]
fn flags_of_other_cloud_controller_managers_are_taken_with_a_warning() {
    let folder = Folder::new();
    let kubeconfig = folder.unreachable_kubeconfig();
    let pasted = [
        "controller",
        "--secure-port=0",
        "--kubeconfig",
        &kubeconfig,
        "--cloud-provider=windlass",
        "--cloud-config=",
        "--allocate-node-cidrs=true",
        "--cluster-cidr=10.0.0.0/8",
        "--configure-cloud-routes=false",
        "-v=2",
        "--use-service-account-credentials",
    ];
    let warned = [
        "--allocate-node-cidrs has no effect",
        "--cluster-cidr has no effect",
        "--configure-cloud-routes has",
        "--use-service-account-credentials has no effect",
    ];
    refuses(&pasted, 1, &[&warned[..], &["Connection refused"]].concat());
}

#[test]
fn a_port_in_use_is_named() {
    let folder = Folder::new();
    let kubeconfig = folder.unreachable_kubeconfig();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let port = format!("--secure-port={}", taken.local_addr().unwrap().port());
    let args = ["controller", "--kubeconfig", &kubeconfig, "--bind-address=127.0.0.1", &port];
    refuses(&args, 1, &[&address, "in use", "--secure-port"]);
}

#[test]
fn a_cloud_config_that_cannot_be_used_is_refused_before_anything_is_asked() {
    refuses(
        &["controller", "--cloud-config=/nowhere"],
        1,
        &["cannot read --cloud-config /nowhere: No such file"],
    );
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let flag = format!("--cloud-config={file}");
    refuses(&["controller", &flag], 1, &["--cloud-config", file, "cannot be used: line 1"]);
}
