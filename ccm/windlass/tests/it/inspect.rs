//! `windlass status` and the others without a cluster that answers, and under the name of a plugin of kubectl.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use crate::support::{BINARY, Folder, windlass};

/// Exit code, standard output and standard error.
fn told(mut command: Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn an_api_server_that_is_away_is_a_problem_that_is_told_and_no_failure() {
    let folder = Folder::new();
    let kubeconfig = folder.unreachable_kubeconfig();
    let asked = |args: &[&str]| {
        let mut command = windlass();
        command.args(args).args(["--kubeconfig", &kubeconfig]);
        told(command)
    };
    let (code, stdout, stderr) = asked(&["status"]);
    assert_eq!(code, Some(4), "{stdout}{stderr}");
    for part in
        ["Windlass at http://127.0.0.1:1", "Kind Services Unreachable", "announce addresses without it"]
    {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    let (code, stdout, _) = asked(&["status", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &status["isIncomplete"]), (Some(4), &serde_json::json!(true)));
    let (code, stdout, stderr) = asked(&["vips"]);
    assert_eq!((code, stdout.as_str()), (Some(4), ""));
    assert!(stderr.starts_with("windlass: VirtualIPs cannot be listed: "), "{stderr}");
    // What changes something must know what there is.
    for args in [&["release", "192.0.2.10"][..], &["drain", "n1"]] {
        let (code, _, stderr) = asked(args);
        assert_eq!(code, Some(1), "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn without_a_cluster_to_ask_one_sentence_says_so() {
    let folder = Folder::new();
    let home = folder.path().display().to_string();
    let rows: [(&[&str], &str); 3] = [
        (&["status"], "there is no kubeconfig"),
        (&["status", "--kubeconfig", "/nonexistent"], "kubeconfig /nonexistent cannot be read"),
        (&["explain", "a/b/c", "--context", "c"], "there is no kubeconfig"),
    ];
    for (args, part) in rows {
        let mut command = windlass();
        command.args(args).env("HOME", &home);
        let (code, stdout, stderr) = told(command);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
        assert!(stderr.contains(part) && stderr.lines().count() == 1, "{args:?}: {stderr}");
    }
}

#[test]
fn under_its_other_name_it_is_a_plugin_of_kubectl() {
    let folder = Folder::new();
    let plugin = folder.path().join("kubectl-windlass");
    symlink(BINARY, &plugin).unwrap();
    let mut command = Command::new(plugin);
    command.args(["status", "--help"]);
    let (code, stdout, stderr) = told(command);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("Usage: kubectl windlass status"), "{stdout}");
    let mut command = windlass();
    command.args(["completion", "bash"]);
    assert!(told(command).1.contains("_windlass()"));
}
