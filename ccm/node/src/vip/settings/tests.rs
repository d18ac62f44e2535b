use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::checks::{Host, HttpQuestion, Tls, Trust};

mod bgp;
mod refusals;

fn read_text(text: &str) -> Settings {
    parse(text.as_bytes(), "vip.yaml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn addresses<T: std::str::FromStr + Ord>(texts: &[&str]) -> BTreeSet<T> {
    texts.iter().map(|text| text.parse().ok().unwrap()).collect()
}

#[test]
fn all_fields_are_read() {
    let settings = read_text(
        r#"
keysDir: /etc/windlass/vip-keys
vips:
- address: 192.0.2.5
  interface: eth0
  ports: [6443]
  vrid: 7
  priority: 150
  preempt: true
  advertIntervalMs: 50
  peers: [192.0.2.12, 192.0.2.13]
  multicast: true
  bind: false
  checks:
  - https:
      url: "https://127.0.0.1:6443/readyz?verbose"
      expect: [200, 401]
      caFile: /etc/kubernetes/pki/ca.crt
      serverName: kubernetes
      host: kubernetes:6443
    intervalMs: 1000
    timeoutMs: 250
    rise: 4
    fall: 5
    weight: 60
  - https: {url: "https://[::1]", certificateSha256: "AA:bb000000000000000000000000000000000000000000000000000000000000"}
  - http: {url: "http://localhost:8080"}
  - tcp: {address: "127.0.0.1:2379"}
  - grpc: {address: "127.0.0.1:2381", service: etcdserverpb.KV}
  - command: {command: [/usr/bin/test, -e, /run/ready]}
  balance:
    backends: ["192.0.2.11:6443", "192.0.2.12:6443"]
    source: Keep
    check: {https: {path: /readyz, caFile: /ca.crt}, intervalMs: 200, fall: 2}
"#,
    );
    let mut hash = [0; 32];
    (hash[0], hash[1]) = (0xaa, 0xbb);
    let rhythm = Rhythm {
        interval: Duration::from_millis(500),
        timeout: Duration::from_millis(500),
        rise: 2,
        fall: 3,
    };
    let http = |path: &str, tls| HttpQuestion {
        path: path.to_owned(),
        expect: vec![200..=200],
        host: None,
        tls,
        reads_reason: true,
    };
    let https = |trust| Some(Tls { server_name: None, trust });
    let target = |host: &str, port| Target { host: Host::Address(host.parse().unwrap()), port };
    let server = |target, question| CheckSettings {
        kind: CheckKind::Server { target, question },
        rhythm,
        weight: 100,
    };
    let first = HttpQuestion {
        path: "/readyz?verbose".to_owned(),
        expect: vec![200..=200, 401..=401],
        host: Some("kubernetes:6443".to_owned()),
        tls: Some(Tls {
            server_name: Some("kubernetes".try_into().unwrap()),
            trust: Trust::Authority("/etc/kubernetes/pki/ca.crt".into()),
        }),
        reads_reason: true,
    };
    let expected = VipSettings {
        address: "192.0.2.5".parse().unwrap(),
        vrrp: true,
        route: None,
        interface: Some("eth0".to_owned()),
        ports: BTreeSet::from([6443]),
        vrid: Some(Vrid::new(7).unwrap()),
        priority: Some(150),
        preempt: true,
        advert_interval: Interval::from_millis(50).unwrap(),
        peers: addresses(&["192.0.2.12", "192.0.2.13"]),
        multicast: true,
        bind: false,
        checks: vec![
            CheckSettings {
                rhythm: Rhythm {
                    interval: Duration::from_secs(1),
                    timeout: Duration::from_millis(250),
                    rise: 4,
                    fall: 5,
                },
                weight: 60,
                ..server(target("127.0.0.1", 6443), Question::Http(first))
            },
            server(target("::1", 443), Question::Http(http("/", https(Trust::Certificate(hash))))),
            server(Target { host: Host::Localhost, port: 8080 }, Question::Http(http("/", None))),
            server(target("127.0.0.1", 2379), Question::Tcp),
            server(target("127.0.0.1", 2381), Question::Grpc { service: "etcdserverpb.KV".to_owned() }),
            CheckSettings {
                kind: CheckKind::Command(["/usr/bin/test", "-e", "/run/ready"].map(str::to_owned).to_vec()),
                rhythm,
                weight: 100,
            },
        ],
        balance: Some(BalanceSettings {
            backends: addresses(&["192.0.2.11:6443", "192.0.2.12:6443"]),
            source: SourceAddress::Keep,
            question: Question::Http(http("/readyz", https(Trust::Authority("/ca.crt".into())))),
            rhythm: Rhythm {
                interval: Duration::from_millis(200),
                timeout: Duration::from_millis(200),
                fall: 2,
                ..rhythm
            },
        }),
    };
    assert_eq!(
        settings,
        Settings { keys_dir: Some("/etc/windlass/vip-keys".into()), bgp: None, vips: vec![expected.clone()] }
    );
    let names: Vec<String> = expected.checks.iter().map(|check| check.kind.to_string()).collect();
    let urls = [
        "https://127.0.0.1:6443/readyz?verbose",
        "https://[::1]:443/",
        "http://localhost:8080/",
        "tcp://127.0.0.1:2379",
        "grpc://127.0.0.1:2381/etcdserverpb.KV",
        "exec:/usr/bin/test -e /run/ready",
    ];
    assert_eq!(names, urls);
}

#[test]
fn what_is_not_given_has_a_default() {
    let settings = read_text("vips: [{address: 192.0.2.5, ports: [6443]}]");
    let expected = VipSettings {
        address: "192.0.2.5".parse().unwrap(),
        vrrp: true,
        route: None,
        interface: None,
        ports: BTreeSet::from([6443]),
        vrid: None,
        priority: None,
        preempt: false,
        advert_interval: Interval::from_millis(100).unwrap(),
        peers: BTreeSet::new(),
        multicast: true,
        bind: false,
        checks: Vec::new(),
        balance: None,
    };
    assert_eq!(settings, Settings { keys_dir: None, bgp: None, vips: vec![expected] });
    let peers = read_text("vips: [{address: 192.0.2.5, ports: [6443], peers: [192.0.2.12]}]");
    assert!(!peers.vips[0].multicast, "whoever names peers is heard by them alone");
    let balance = read_text(r#"vips: [{address: 192.0.2.5, balance: {backends: ["192.0.2.11:8443"]}}]"#);
    let expected = BalanceSettings {
        backends: addresses(&["192.0.2.11:8443"]),
        source: SourceAddress::Masquerade,
        question: Question::Tcp,
        rhythm: checks::DEFAULT_RHYTHM,
    };
    assert_eq!(balance.vips[0].balance, Some(expected));
}

#[test]
fn ports_that_are_not_given_are_those_that_are_asked_on_this_host_or_else_that_of_all_backends() {
    for (rest, expected) in [
        ("checks: [{tcp: {address: '127.0.0.1:6443'}}]", vec![6443]),
        ("checks: [{tcp: {address: '0.0.0.0:6443'}}, {tcp: {address: '[::]:80'}}]", vec![80, 6443]),
        ("checks: [{http: {url: 'http://localhost'}}, {tcp: {address: '192.0.2.9:53'}}]", vec![80]),
        ("checks: [{grpc: {address: '[::1]:2381'}}, {command: {command: [/bin/true]}}]", vec![2381]),
        ("ports: [443], checks: [{tcp: {address: '127.0.0.1:6443'}}]", vec![443]),
        ("balance: {backends: ['192.0.2.11:8443', '192.0.2.12:8443']}", vec![8443]),
        (
            "checks: [{tcp: {address: '127.0.0.1:6443'}}], balance: {backends: ['192.0.2.11:8443']}",
            vec![6443],
        ),
    ] {
        let settings = read_text(&format!("vips: [{{address: 192.0.2.5, {rest}}}]"));
        assert_eq!(settings.vips[0].ports.iter().copied().collect::<Vec<_>>(), expected, "{rest}");
    }
}

#[test]
fn backends_are_asked_what_this_node_is_asked_at_their_port_unless_it_is_said_otherwise() {
    for (checks, balance, expected) in [
        ("https: {url: 'https://127.0.0.1:6443/readyz'}", "", "https://x/readyz"),
        ("http: {url: 'http://[::1]:6443/healthz'}", "", "http://x/healthz"),
        ("grpc: {address: 'localhost:6443', service: a}", "", "grpc://x/a"),
        ("https: {url: 'https://127.0.0.1:6443/readyz'}", ", check: {tcp: {}}", "tcp://x"),
        ("https: {url: 'https://127.0.0.1:443/readyz'}", "", "tcp://x"),
        ("https: {url: 'https://192.0.2.9:6443/readyz'}", "", "tcp://x"),
        ("command: {command: [/bin/true]}", "", "tcp://x"),
        (
            "https: {url: 'https://127.0.0.1:6443/', \
             certificateSha256: 'aabb000000000000000000000000000000000000000000000000000000000000'}",
            "",
            "tcp://x",
        ),
    ] {
        let text = format!(
            "vips: [{{address: 192.0.2.5, ports: [6443], checks: [{{{checks}, fall: 7}}], \
             balance: {{backends: ['192.0.2.11:6443', '192.0.2.12:6443']{balance}}}}}]"
        );
        let balance = read_text(&text).vips.remove(0).balance.unwrap();
        assert_eq!(balance.question.url(&"x"), expected, "{text}");
        let fall = if expected == "tcp://x" { 3 } else { 7 };
        assert_eq!(balance.rhythm.fall, fall, "{text}");
    }
}

#[test]
fn vrids_are_told_apart_by_family_and_interface() {
    for (one, other) in [
        ("address: 192.0.2.5, vrid: 7", "address: '2001:db8::5', vrid: 7"),
        ("address: 192.0.2.5, vrid: 7, interface: a", "address: 192.0.2.6, vrid: 7, interface: b"),
        ("address: 192.0.2.5, vrid: 7", "address: 192.0.2.6, vrid: 8"),
        ("address: 192.0.2.5", "address: 192.0.2.6"),
    ] {
        read_text(&format!("vips: [{{{one}, ports: [1]}}, {{{other}, ports: [1]}}]"));
    }
}

#[test]
fn an_alias_and_a_merge_repeat_what_is_written_once() {
    let settings = read_text(
        "vips:\n- &one\n  address: 192.0.2.5\n  ports: &ports [6443]\n- address: 192.0.2.6\n  ports: *ports\n",
    );
    assert_eq!(settings.vips[1].ports, BTreeSet::from([6443]));
    let settings =
        read_text("vips:\n- &one\n  address: 192.0.2.5\n  ports: [6443]\n- <<: *one\n  address: 192.0.2.6\n");
    assert_eq!(settings.vips[1].ports, BTreeSet::from([6443]));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read(Path::new("/nowhere/vip.yaml")).unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot read /nowhere/vip.yaml: No such file or directory (os error 2); name the file of the settings, as \
         --config=/etc/windlass/vip.yaml"
    );
}

/// Words that settings are made of, in any order, so that more than the first line is tried.
fn yaml_like() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "vips:",
        "- ",
        "  ",
        "\n",
        "address: ",
        "192.0.2.5",
        "2001:db8::5",
        "ports: ",
        "[6443]",
        "[",
        "]",
        "{",
        "}",
        "checks:",
        "https:",
        "url: ",
        "https://127.0.0.1:6443/readyz",
        "tcp:",
        "intervalMs: ",
        "18446744073709551616",
        "-1",
        "0",
        "1e9",
        "&a",
        "*a",
        "<<: *a",
        "!!binary ",
        "'",
        "\"",
        ", ",
        "balance:",
        "backends: ",
        "~",
        "null",
        "peers:",
        "vrid: ",
        "255",
        "...",
        "---",
        "#",
        "| ",
        "> ",
        "? ",
        ":",
        "é",
        "\u{feff}",
        "certificateSha256: ",
        "command: ",
        "/bin/true",
        "multicast: ",
        "false",
        "keysDir: /k",
    ]);
    prop::collection::vec(words, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))] // 0.34 ms each

    #[test]
    fn any_bytes_are_settings_or_an_error_of_one_line_that_names_the_file(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check_outcome(&bytes)?;
    }

    #[test]
    fn any_words_are_settings_or_an_error_of_one_line_that_names_the_file(text in yaml_like()) {
        check_outcome(text.as_bytes())?;
    }

    #[test]
    fn any_value_of_any_field_is_taken_or_refused_with_its_place(
        field in prop::sample::select(vec![
            "address", "interface", "vrid", "priority", "preempt", "advertIntervalMs", "multicast", "bind", "ports",
            "peers", "checks", "balance", "protocols", "communities", "localPreference", "med", "prepend",
        ]),
        value in "\\PC{0,40}",
    ) {
        let text = format!("vips:\n- {field}: {}\n", serde_json::to_string(&value).unwrap());
        let error = parse(text.as_bytes(), "vip.yaml").unwrap_err().to_string();
        prop_assert!(error.starts_with("vip.yaml:2:"), "{}", error);
    }
}

fn check_outcome(text: &[u8]) -> Result<(), TestCaseError> {
    match parse(text, "vip.yaml") {
        Ok(settings) => {
            prop_assert!(!settings.vips.is_empty());
            for vip in settings.vips {
                prop_assert!(!vip.ports.is_empty() && !vip.ports.contains(&0));
                prop_assert!(vip.checks.iter().all(|check| check.rhythm.timeout <= check.rhythm.interval));
            }
        }
        Err(error) => {
            let error = error.to_string();
            prop_assert!(error.starts_with("vip.yaml") && error.lines().count() == 1, "{}", error);
        }
    }
    Ok(())
}
