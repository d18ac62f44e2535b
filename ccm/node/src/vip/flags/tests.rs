use clap::Parser;

use super::*;
use crate::vip::settings;

#[derive(Debug, Parser)]
#[command(name = "vip", no_binary_name = true)]
struct Line {
    #[command(flatten)]
    settings: SettingsFlags,
}

fn flags(args: &[String]) -> SettingsFlags {
    Line::try_parse_from(args).unwrap_or_else(|error| panic!("{args:?}: {error}")).settings
}

fn words(line: &str) -> Vec<String> {
    line.split('|').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn flags_say_what_a_file_says() {
    let line = "--address=192.0.2.5|--address=2001:db8::5|--protocol=vrrp|--protocol=bgp|--bgp-asn=64512|\
                --bgp-peer=192.0.2.1:64500|--bgp-peer=[2001:db8::1]:external|--bgp-peer=gateway:internal|\
                --bgp-peer=gateway6:64500|--bgp-password-file=/bgp|--bgp-bfd|--interface=eth0|--port=443|--vrid=7|--priority=150|--preempt|\
                --advert-interval-ms=50|--peer=192.0.2.12|--peer=2001:db8::12|--multicast|--keys-dir=/keys|\
                --check=https://127.0.0.1:6443/readyz|--check=http://127.0.0.1:80/|--check=tcp://127.0.0.1:1|\
                --check=grpc://127.0.0.1:2/a.B|--check=grpc://127.0.0.1:2|--check=exec:/bin/test -e /x|--check-ca=/ca.crt|--check-server-name=kubernetes|--check-expect=200,401|\
                --check-interval-ms=400|--check-timeout-ms=300|--rise=4|--fall=5|--backend=192.0.2.11:1|\
                --backend=[2001:db8::11]:1|--source=masquerade";
    let vip = |address: &str, peer: &str, backend: &str| {
        let rhythm = "intervalMs: 400, timeoutMs: 300, rise: 4, fall: 5";
        format!(
            "- address: '{address}'
  protocols: [vrrp, bgp]
  interface: eth0
  ports: [443]
  vrid: 7
  priority: 150
  preempt: true
  advertIntervalMs: 50
  peers: ['{peer}']
  multicast: true
  checks:
  - {{https: {{url: 'https://127.0.0.1:6443/readyz', caFile: /ca.crt, serverName: kubernetes, expect: [200, 401]}}, {rhythm}}}
  - {{http: {{url: 'http://127.0.0.1:80/', expect: [200, 401]}}, {rhythm}}}
  - {{tcp: {{address: '127.0.0.1:1'}}, {rhythm}}}
  - {{grpc: {{address: '127.0.0.1:2', service: a.B}}, {rhythm}}}
  - {{grpc: {{address: '127.0.0.1:2'}}, {rhythm}}}
  - {{command: {{command: [/bin/test, -e, /x]}}, {rhythm}}}
  balance: {{backends: ['{backend}'], source: Masquerade}}
"
        )
    };
    let file = format!(
        "keysDir: /keys
bgp:
  localASN: 64512
  peers:
  - {{address: 192.0.2.1, peerASN: 64500, passwordFile: /bgp, bfd: {{}}}}
  - {{address: '2001:db8::1', dynamicASN: External, passwordFile: /bgp, bfd: {{}}}}
  - {{gateway: IPv4, dynamicASN: Internal, passwordFile: /bgp, bfd: {{}}}}
  - {{gateway: IPv6, peerASN: 64500, passwordFile: /bgp, bfd: {{}}}}
vips:\n{}{}",
        vip("192.0.2.5", "192.0.2.12", "192.0.2.11:1"),
        vip("2001:db8::5", "2001:db8::12", "[2001:db8::11]:1")
    );
    let expected = settings::parse(file.as_bytes(), "vip.yaml").unwrap();
    let read = flags(&words(line));
    assert_eq!(read.settings().unwrap(), expected);
    assert_eq!(read.to_args().len(), words(line).len());
    assert_eq!(flags(&read.to_args()).vips, read.vips, "as arguments they are the same again");
}

#[test]
fn what_is_not_given_is_as_in_a_file() {
    let read = flags(&words("--address=192.0.2.5|--check=https://127.0.0.1:6443/readyz")).settings().unwrap();
    let file = b"vips: [{address: 192.0.2.5, checks: [{https: {url: 'https://127.0.0.1:6443/readyz'}}]}]";
    assert_eq!(read, settings::parse(file, "vip.yaml").unwrap());
}

#[test]
fn a_file_and_flags_exclude_each_other() {
    for other in ["--address=192.0.2.5", "--preempt", "--keys-dir=/k", "--source=keep"] {
        let error = Line::try_parse_from(["--config=/x.yaml", other]).unwrap_err().to_string();
        assert!(error.contains("'--config <FILE>' cannot be used with"), "{error}");
    }
    let only = flags(&words("--config=/etc/windlass/vip.yaml"));
    assert_eq!(only.to_args(), ["--config=/etc/windlass/vip.yaml"]);
}

#[test]
fn what_is_wrong_is_refused_with_the_name_of_the_flag() {
    let mut wrong = Vec::new();
    for (line, expected) in [
        (
            "",
            "--address: there is no virtual IP: give one, as --address=192.0.2.5, or a file of settings, as --config=/etc/windlass/vip.yaml",
        ),
        (
            "--address=127.0.0.1",
            "--address: 127.0.0.1 is a loopback address: use a unicast address of the LAN, as 192.0.2.5 or 2001:db8::5",
        ),
        (
            "--address=192.0.2.5",
            "--port: no port is given, and no check asks one on this host: name the port to serve, as 6443",
        ),
        (
            "--address=192.0.2.5|--address=192.0.2.5|--port=1",
            "--address: 192.0.2.5 is given twice: give each address once",
        ),
        (
            "--address=192.0.2.5|--address=192.0.2.6|--port=1|--vrid=7",
            "--vrid: virtual IP 192.0.2.5 already has VRID 7: give each virtual IP another VRID, or leave it out and Windlass chooses one",
        ),
        ("--address=192.0.2.5|--port=0", "--port: 0 is out of range: use 1 to 65535"),
        ("--address=192.0.2.5|--port=1|--vrid=0", "--vrid: 0 is out of range: use 1 to 255"),
        ("--address=192.0.2.5|--port=1|--priority=300", "--priority: 300 is out of range: use 101 to 200"),
        (
            "--address=192.0.2.5|--port=1|--advert-interval-ms=11",
            "--advert-interval-ms: advertisement interval of 11 ms is not a multiple of 10 ms, the protocol's unit (RFC 9568 §5.2.7): use 10 to 40950 in steps of 10",
        ),
        (
            "--address=192.0.2.5|--port=1|--interface=",
            "--interface: \"\" is not an interface name: give a name that `ip link` shows",
        ),
        (
            "--address=192.0.2.5|--port=1|--keys-dir=keys",
            "--keys-dir: keys is not an absolute path: begin it with /",
        ),
        ("--address=192.0.2.5|--port=1|--peer=x", "--peer: x is not an IP address: write it as 192.0.2.12"),
        (
            "--address=192.0.2.5|--port=1|--peer=2001:db8::1",
            "--peer: 2001:db8::1 is IPv6, and no --address is IPv6: give an IPv4 address here, or an IPv6 --address",
        ),
        (
            "--address=2001:db8::5|--port=1|--backend=192.0.2.1:1",
            "--backend: 192.0.2.1:1 is IPv4, and no --address is IPv4: give an IPv6 address here, or an IPv4 --address",
        ),
        (
            "--address=192.0.2.5|--port=1|--backend=192.0.2.1",
            "--backend: 192.0.2.1 is not an address with a port: write it as 192.0.2.11:6443",
        ),
        (
            "--address=192.0.2.5|--port=1|--backend=192.0.2.1:1|--source=mine",
            "--source: mine is neither masquerade nor keep: use one of the two",
        ),
        (
            "--address=192.0.2.5|--port=1|--source=keep",
            "--source: nothing is balanced, as there is no --backend: leave it out, or name the backends",
        ),
        (
            "--address=192.0.2.5|--port=1|--port=2|--backend=192.0.2.1:1",
            "--port: connections to ports 1, 2 would go to the same port of a backend: balance one port",
        ),
        (
            "--address=192.0.2.5|--port=1|--bind|--backend=192.0.2.1:1",
            "--backend: with bind, this node's own programs serve the address, and Windlass balances none of its connections: leave out balance or bind",
        ),
        (
            "--address=192.0.2.5|--port=1|--protocol=bgp",
            "--protocol: 192.0.2.5 is to be announced by BGP, and there are no BGP peers: give --bgp-asn and --bgp-peer",
        ),
        (
            "--address=192.0.2.5|--port=1|--protocol=bgp|--bgp-asn=64512|--bgp-peer=192.0.2.1",
            "--bgp-peer: \"192.0.2.1\" has no AS: write it as 192.0.2.1:64500, [2001:db8::1]:64500 or gateway:external",
        ),
        (
            "--address=192.0.2.5|--port=1|--protocol=bgp|--bgp-asn=64512|--bgp-peer=192.0.2:1",
            "--bgp-peer: 192.0.2 is not an IP address: write it as 192.0.2.1 or 2001:db8::1",
        ),
        (
            "--address=192.0.2.5|--port=1|--bgp-asn=64512|--bgp-peer=gateway:external",
            "--bgp-asn: no virtual IP is announced by BGP: add bgp to the protocols of one, or leave this out",
        ),
        (
            "--address=192.0.2.5|--check=ftp://127.0.0.1",
            "--check: \"ftp://127.0.0.1\" is not a check: begin it with http://, https://, tcp://, grpc:// or exec:/",
        ),
        (
            "--address=192.0.2.5|--check=https://example.org/",
            "--check: https://example.org/: host \"example.org\" is not an IP address, and checks do not use DNS: use an IP address or localhost; IPv6 as [::1]",
        ),
        (
            "--address=192.0.2.5|--check=tcp://127.0.0.1",
            "--check: 127.0.0.1: the port is missing: give one from 1 to 65535, as 127.0.0.1:6443",
        ),
        (
            "--address=192.0.2.5|--check=exec:true",
            "--check: true is not an absolute path: begin it with /: no shell looks it up",
        ),
        (
            "--address=192.0.2.5|--check=tcp://127.0.0.1:1|--check-ca=/ca.crt",
            "--check-ca: no --check begins with https://: leave it out, or give such a --check",
        ),
        (
            "--address=192.0.2.5|--check=tcp://127.0.0.1:1|--check-expect=200",
            "--check-expect: no --check begins with http:// or https://: leave it out, or give such a --check",
        ),
        (
            "--address=192.0.2.5|--check=https://127.0.0.1/|--check-server-name=a b",
            "--check-server-name: \"a b\" cannot be the name in a certificate: give a DNS name or an IP address",
        ),
        (
            "--address=192.0.2.5|--check=http://127.0.0.1/|--check-expect=200,all",
            "--check-expect: all is not a whole number: use 200 to 599",
        ),
        (
            "--address=192.0.2.5|--check=https://127.0.0.1/|--check-ca=ca.crt",
            "--check-ca: ca.crt is not an absolute path: begin it with /",
        ),
        (
            "--address=192.0.2.5|--check=https://127.0.0.1/|--check-certificate-sha256=00",
            "--check-certificate-sha256: 00 is not a SHA-256 of 64 hexadecimal digits: write what `openssl x509 -noout -fingerprint -sha256 -in FILE` prints after =",
        ),
        (
            "--address=192.0.2.5|--check=tcp://127.0.0.1:1|--check-timeout-ms=800",
            "--check-timeout-ms: 800 is longer than --check-interval-ms 500: use at most 500, or a longer interval",
        ),
        (
            "--address=192.0.2.5|--check=tcp://127.0.0.1:1|--check-interval-ms=1",
            "--check-interval-ms: 1 is out of range: use 50 to 60000",
        ),
        ("--address=192.0.2.5|--check=tcp://127.0.0.1:1|--rise=0", "--rise: 0 is out of range: use 1 to 100"),
        (
            "--address=192.0.2.5|--check=tcp://127.0.0.1:1|--fall=many",
            "--fall: many is not a whole number: use 1 to 100",
        ),
    ] {
        let found = flags(&words(line)).settings().expect_err(line).to_string();
        if found != expected {
            wrong.push(format!("{line}\n   {found}\nnot {expected}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
