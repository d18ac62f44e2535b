use std::process::Command;

use clap::Parser;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::*;

#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Line {
    #[command(flatten)]
    args: ManifestArgs,
}

/// What `windlass vip` takes of what a manifest prints.
#[derive(Debug, Parser)]
#[command(name = "vip")]
struct Run {
    #[arg(long)]
    socket: PathBuf,
    #[command(flatten)]
    settings: SettingsFlags,
}

const PODS: [&str; 4] = ["kubeadm", "k3s", "rke2", "kubelet"];

fn print(platform: &str, flags: &[&str]) -> Result<String, ManifestError> {
    let line = [&["--for", platform], flags].concat();
    manifest(&Line::try_parse_from(&line).unwrap_or_else(|error| panic!("{line:?}: {error}")).args)
}

fn pod_of(text: &str) -> (Pod, Container) {
    let pod: Pod = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let container = pod.spec.clone().unwrap().containers.remove(0);
    (pod, container)
}

fn run(words: &[String]) -> (PathBuf, Settings) {
    let run = Run::try_parse_from(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    (run.socket, run.settings.settings().unwrap())
}

/// The settings that these flags say to `windlass vip`.
fn said(flags: &[&str]) -> Settings {
    let words: Vec<String> =
        ["vip", "--socket=/s"].iter().chain(flags).map(|word| (*word).to_owned()).collect();
    run(&words).1
}

const FULL: &[&str] = &[
    "--address=192.0.2.5",
    "--address=2001:db8::5",
    "--port=6443",
    "--check=https://127.0.0.1:6443/readyz",
    "--check=https://127.0.0.1:10257/healthz",
    "--check-ca=/etc/kubernetes/pki/ca.crt",
    "--peer=192.0.2.12",
    "--peer=2001:db8::12",
    "--keys-dir=/etc/windlass/vip-keys",
    "--preempt",
    "--priority=150",
];

#[test]
fn a_pod_says_what_the_flags_say_and_has_the_agents_rights() {
    let agent: serde_json::Value =
        serde_saphyr::from_str(include_str!("../../../../../manifests/base/agent.yaml")).unwrap();
    let agent = &agent["spec"]["template"]["spec"];
    for platform in PODS {
        let text = print(platform, FULL).unwrap();
        let (pod, container) = pod_of(&text);
        let (socket, settings) = run(container.args.as_ref().unwrap());
        assert_eq!((socket, settings), (PathBuf::from(crate::vip::SOCKET), said(FULL)), "{platform}");

        let own = serde_json::to_value(&pod).unwrap();
        let (own, of_agent) = (&own["spec"], &agent["containers"][0]);
        let in_pod = [
            "hostNetwork",
            "dnsPolicy",
            "priorityClassName",
            "securityContext",
            "terminationGracePeriodSeconds",
        ];
        for field in in_pod {
            assert_eq!(own[field], agent[field], "{platform}: {field}");
        }
        for field in ["securityContext", "resources", "imagePullPolicy"] {
            assert_eq!(own["containers"][0][field], of_agent[field], "{platform}: {field}");
        }
        assert_eq!(own["tolerations"], serde_json::Value::Null);
        for probe in [container.startup_probe, container.liveness_probe, container.readiness_probe] {
            let command = probe.unwrap().exec.unwrap().command.unwrap();
            let expected = ["/windlass", "probe", "--socket=/run/windlass/vip.sock"];
            assert_eq!(command[..3], expected, "{platform}");
        }
    }
}

type File = (String, bool, Option<(String, String)>);

/// The mounts of the one container: (path, read-only), and the `hostPath` of each, with its type.
fn files(text: &str) -> Vec<File> {
    let (pod, container) = pod_of(text);
    let volumes = pod.spec.unwrap().volumes.unwrap();
    let mounts = container.volume_mounts.unwrap();
    assert_eq!(mounts.len(), volumes.len());
    let host = |name: &str| {
        let volume = volumes.iter().find(|volume| volume.name == name).unwrap();
        volume.host_path.clone().map(|host| (host.path, host.type_.unwrap()))
    };
    mounts
        .into_iter()
        .map(|mount| (mount.mount_path, mount.read_only.unwrap_or(false), host(&mount.name)))
        .collect()
}

#[test]
fn a_pod_sees_the_files_that_the_settings_name_and_no_other() {
    let own = |folder: &str| (folder.to_owned(), false, None);
    let host = |path: &str, kind: &str| (path.to_owned(), true, Some((path.to_owned(), kind.to_owned())));
    let plain = print("kubelet", &["--address=192.0.2.5", "--port=1"]).unwrap();
    assert_eq!(files(&plain), [own("/run/windlass")]);
    let expected = [
        own("/run/windlass"),
        host("/etc/windlass/vip-keys", "DirectoryOrCreate"),
        host("/etc/kubernetes/pki/ca.crt", "File"),
    ];
    assert_eq!(files(&print("kubeadm", FULL).unwrap()), expected);

    let folder = std::env::temp_dir().join(format!("windlass-manifest-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("vip.yaml");
    let path = folder.display();
    std::fs::write(
        &file,
        format!(
            "keysDir: {path}/keys
vips:
- address: 192.0.2.5
  checks:
  - https: {{url: 'https://127.0.0.1:6443/readyz', caFile: {path}/ca.crt}}
  - https: {{url: 'https://127.0.0.1:6443/livez', caFile: /pki/ca.crt}}
  balance: {{backends: ['192.0.2.11:6443'], check: {{https: {{caFile: /pki/backends.crt}}}}}}
"
        ),
    )
    .unwrap();
    let config = format!("--config={}", file.display());
    let text = print("kubelet", &[&config, "--socket=/run/other/vip.sock"]).unwrap();
    let expected = [
        own("/run/other"),
        host(&path.to_string(), "Directory"),
        host("/pki/backends.crt", "File"),
        host("/pki/ca.crt", "File"),
    ];
    assert_eq!(files(&text), expected);
    let (_, container) = pod_of(&text);
    assert_eq!(container.args.unwrap(), ["vip", "--socket=/run/other/vip.sock", &config]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_manifest_has_the_flags_of_bgp_and_the_password_of_its_peers() {
    let flags = [
        "--address=203.0.113.100",
        "--protocol=bgp",
        "--bgp-asn=64512",
        "--bgp-peer=gateway:external",
        "--bgp-password-file=/etc/windlass/bgp",
        "--check=https://127.0.0.1:6443/readyz",
    ];
    for platform in PODS {
        let text = print(platform, &flags).unwrap();
        let (_, container) = pod_of(&text);
        assert_eq!(run(container.args.as_ref().unwrap()).1, said(&flags), "{platform}");
        let password = files(&text).into_iter().find(|file| file.0 == "/etc/windlass/bgp");
        assert_eq!(password.unwrap().2, Some(("/etc/windlass/bgp".to_owned(), "File".to_owned())));
    }
    let unit = print("systemd", &flags).unwrap();
    assert!(unit.contains("\nUser=root\n"), "a password is readable by its owner alone: {unit}");
    assert_eq!(run(&exec_start(&unit)[1..]).1, said(&flags));
    let open = print("systemd", &[&flags[..4], &flags[5..]].concat()).unwrap();
    assert!(open.contains("\nDynamicUser=yes\n"), "{open}");
}

#[test]
fn the_api_server_is_asked_where_nothing_else_is_and_where_there_is_one_for_certain() {
    const CHECK: &str = "--check=https://127.0.0.1:6443/readyz";
    for (platform, flags, added) in [
        ("kubeadm", &["--address=192.0.2.5"][..], &[CHECK][..]),
        ("k3s", &["--address=192.0.2.5"], &[CHECK, "--check-expect=200,401"]),
        ("rke2", &["--address=192.0.2.5"], &[CHECK, "--check-expect=200,401", "--port=6443", "--port=9345"]),
        ("k3s", &["--address=192.0.2.5", "--check-expect=200"], &[CHECK]),
        (
            "kubeadm",
            &["--address=192.0.2.5", "--check-ca=/pki/ca.crt"],
            &[CHECK, "--check-server-name=kubernetes"],
        ),
        ("rke2", &["--address=192.0.2.5", "--port=443"], &[CHECK, "--check-expect=200,401"]),
        ("rke2", &["--address=192.0.2.5", "--backend=192.0.2.11:6443"], &[CHECK, "--check-expect=200,401"]),
        ("kubeadm", &["--address=192.0.2.5", "--check=tcp://127.0.0.1:1"], &[]),
        ("kubelet", &["--address=192.0.2.5", "--port=1"], &[]),
    ] {
        let (_, container) = pod_of(&print(platform, flags).unwrap());
        let (_, settings) = run(&container.args.unwrap());
        assert_eq!(settings, said(&[flags, added].concat()), "{platform} {flags:?}");
    }
    let refused = print("systemd", &["--address=192.0.2.5"]).unwrap_err().to_string();
    assert!(refused.starts_with("--port: no port is given"), "{refused}");
}

#[test]
fn the_comments_say_where_it_goes_and_what_else_is_to_be_done() {
    for (platform, parts) in [
        (
            "kubeadm",
            &[
                "/etc/kubernetes/manifests/windlass-vip.yaml",
                "kubeadm init --control-plane-endpoint 192.0.2.5:6443",
            ][..],
        ),
        (
            "k3s",
            &[
                "/var/lib/rancher/k3s/agent/pod-manifests/windlass-vip.yaml",
                "tls-san: [192.0.2.5, 2001:db8::5]",
                "server: https://192.0.2.5:6443",
                "anonymous-auth=true",
            ],
        ),
        (
            "rke2",
            &[
                "/var/lib/rancher/rke2/agent/pod-manifests/windlass-vip.yaml",
                "tls-san: [192.0.2.5, 2001:db8::5]",
                "server: https://192.0.2.5:9345",
                "anonymous-auth=true",
            ],
        ),
        ("kubelet", &["staticPodPath"]),
        ("systemd", &["/etc/systemd/system/windlass-vip.service", "systemctl enable --now windlass-vip"]),
    ] {
        let text = print(platform, FULL).unwrap();
        let comments: String =
            text.lines().take_while(|line| line.starts_with("# ")).collect::<Vec<_>>().join("\n");
        for part in [&["192.0.2.5, 2001:db8::5"], parts].concat() {
            assert!(comments.contains(part), "{platform}: {part} is missing in\n{comments}");
        }
    }
    let v6 = print("kubeadm", &["--address=2001:db8::5"]).unwrap();
    assert!(v6.contains("--control-plane-endpoint [2001:db8::5]:6443"), "{v6}");
}

/// The words of `ExecStart`, read as systemd does.
fn exec_start(unit: &str) -> Vec<String> {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let (mut words, mut chars) = (vec![], line.chars().peekable());
    while chars.peek().is_some() {
        let mut word = String::new();
        let is_quoted = chars.next_if_eq(&'"').is_some();
        while let Some(c) = chars.next() {
            match c {
                '"' if is_quoted => break,
                ' ' if !is_quoted => break,
                '\\' => match chars.next().unwrap() {
                    'x' => {
                        let digits: String = chars.by_ref().take(2).collect();
                        word.push(char::from(u8::from_str_radix(&digits, 16).unwrap()));
                    }
                    other => word.push(other),
                },
                '%' | '$' => {
                    assert_eq!(chars.next(), Some(c), "{line}");
                    word.push(c);
                }
                other => word.push(other),
            }
        }
        chars.next_if_eq(&' ');
        words.push(word);
    }
    words
}

#[test]
fn a_unit_says_what_the_flags_say() {
    let odd =
        &["--address=192.0.2.5", "--port=1", "--check=exec:/usr/bin/test -e /run/$x%n\"\\a;b", "--bind"][..];
    for flags in [FULL, odd] {
        let text = print("systemd", flags).unwrap();
        let words = exec_start(&text);
        assert_eq!(words[..2], ["/usr/local/bin/windlass", "vip"]);
        let (socket, settings) = run(&words[1..]);
        assert_eq!((socket, settings), (PathBuf::from(crate::vip::SOCKET), said(flags)), "{text}");
    }
    let keys = print("systemd", FULL).unwrap();
    assert!(keys.contains("\nUser=root\n") && keys.contains("\nRuntimeDirectory=windlass\n"), "{keys}");
    let none = print("systemd", odd).unwrap();
    assert!(none.contains("\nDynamicUser=yes\n") && !none.contains("User=root"), "{none}");
    let elsewhere = print("systemd", &[odd, &["--socket=/srv/vip/vip.sock"]].concat()).unwrap();
    assert!(elsewhere.contains("\nReadWritePaths=/srv/vip\n"), "{elsewhere}");
}

#[test]
fn systemd_finds_nothing_wrong_with_a_unit() {
    let Ok(version) = Command::new("systemd-analyze").arg("--version").output() else {
        eprintln!("systemd_finds_nothing_wrong_with_a_unit is skipped: there is no systemd-analyze");
        return;
    };
    assert!(version.status.success());
    let folder = std::env::temp_dir().join(format!("windlass-unit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("windlass-vip.service");
    // The program has to be there: any will do.
    let text = print("systemd", FULL).unwrap().replace("/usr/local/bin/windlass", "/bin/true");
    std::fs::write(&file, text).unwrap();
    let found = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&found.stderr);
    let of_ours: Vec<&str> = said.lines().filter(|line| line.contains("windlass-vip")).collect();
    assert!(found.status.success() && of_ours.is_empty(), "{said}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_does_not_fit_is_refused() {
    let base = ["--address=192.0.2.5", "--port=1"];
    for (platform, flags, expected) in [
        (
            "kubelet",
            &["--socket=vip.sock"][..],
            "--socket vip.sock: it is not an absolute path: begin it with /",
        ),
        (
            "kubelet",
            &["--socket=/vip.sock"],
            "--socket /vip.sock: its folder is the root of the host: put it into a folder, as /etc/windlass",
        ),
        (
            "kubelet",
            &["--socket=/run/x/../vip.sock"],
            "--socket /run/x/../vip.sock: it contains ..: write the path without it",
        ),
        (
            "kubelet",
            &["--socket=/k/vip.sock", "--keys-dir=/k/keys"],
            "--socket /k/vip.sock: its folder hides files that the settings name: put it into another folder, as /run/windlass/vip.sock",
        ),
        (
            "kubelet",
            &["--keys-dir=/"],
            "keysDir /key: its folder is the root of the host: put it into a folder, as /etc/windlass",
        ),
        (
            "kubeadm",
            &["--check=exec:/usr/bin/test -e /x"],
            "check exec:/usr/bin/test -e /x: the image windlass:dev contains only Windlass: name an image that contains the program by --image, use \
             --for systemd, or check a server",
        ),
        ("kubelet", &["--vrid=0"], "--vrid: 0 is out of range: use 1 to 255"),
    ] {
        let refused = print(platform, &[&base, flags].concat()).unwrap_err().to_string();
        assert_eq!(refused, expected, "{flags:?}");
    }
    let other = [&base[..], &["--check=exec:/usr/bin/test -e /x", "--image=example.org/own:1"]].concat();
    let (_, container) = pod_of(&print("kubelet", &other).unwrap());
    assert_eq!(container.image.as_deref(), Some("example.org/own:1"));
    let missing = print("kubelet", &["--config=/nowhere/vip.yaml"]).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read /nowhere/vip.yaml: "), "{missing}");
}

/// A release replaces both; `manifests/release/build` does.
#[test]
fn the_image_is_the_one_that_the_other_manifests_have() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests/base/kustomization.yaml");
    let kustomization: serde_json::Value =
        serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let image = &kustomization["images"][0];
    let name = [&image["newName"], &image["newTag"]].map(|part| part.as_str().unwrap()).join(":");
    assert_eq!(name, IMAGE);
    let (_, container) = pod_of(&print("kubelet", &["--address=192.0.2.5", "--port=1"]).unwrap());
    assert_eq!(container.image, Some(name));
}
