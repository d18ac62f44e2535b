//! Each refusal in its exact words.

use super::super::parse;

/// What follows `vip.yaml:` in the refusal of this text.
fn refusal(text: &str) -> String {
    let error = parse(text.as_bytes(), "vip.yaml").expect_err(text).to_string();
    error.strip_prefix("vip.yaml:").unwrap_or_else(|| panic!("{error}")).to_owned()
}

pub(super) fn check(rows: &[(&str, &str)], of: impl Fn(&str) -> String) {
    let mut wrong = Vec::new();
    for (fields, expected) in rows {
        let found = refusal(&of(fields));
        if found != *expected {
            wrong.push(format!("{fields}\n   {found}\nnot {expected}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn what_is_no_file_of_settings() {
    check(
        &[
            (
                "a: [",
                "1:1: unknown field `a`, expected one of keysDir, bgp, vips in `a: [`: correct it; docs/api-vip.md has an example",
            ),
            ("vips: 7", "1:7: a list is expected in `vips: 7`: correct it; docs/api-vip.md has an example"),
            (
                "vips: []",
                "1:7: vips: there is no virtual IP: list at least one, as `vips: [{address: 192.0.2.5, ports: [6443]}]`",
            ),
            (
                "vip: []",
                "1:1: unknown field `vip`, expected one of keysDir, bgp, vips in `vip: []`: correct it; docs/api-vip.md has an example",
            ),
            ("keysDir: keys\nvips: []", "1:10: keysDir: keys is not an absolute path: begin it with /"),
            (
                "vips:\n- address: 192.0.2.5\n  adress: 192.0.2.6",
                "3:3: unknown field `adress`, expected one of address, protocols, interface, ports, vrid, priority, preempt, advertIntervalMs, peers, multicast, bind, checks, balance, communities, localPreference, med, prepend in `adress: 192.0.2.6`: correct it; docs/api-vip.md has an example",
            ),
            (
                "vips:\n- address: 192.0.2.5\n  address: 192.0.2.6",
                "3:3: address is given twice in `address: 192.0.2.6`: correct it; docs/api-vip.md has an example",
            ),
            (
                "vips:\n- address: [192.0.2.5]",
                "2:12: a single value is expected, not a list or fields in `- address: [192.0.2.5]`: correct it; docs/api-vip.md has an example",
            ),
            (
                "vips:\n- ports: [{a: b}]",
                "2:11: a single value is expected, not a list or fields in `- ports: [{a: b}]`: correct it; docs/api-vip.md has an example",
            ),
            (
                "vips:\n- ports: 6443",
                "2:10: a list is expected in `- ports: 6443`: correct it; docs/api-vip.md has an example",
            ),
            ("vips: [~]", "1:8: vips[0].address: it is missing: write it as 192.0.2.5 or 2001:db8::5"),
            (
                "vips: []\n---\nvips: []",
                "3:1: a second document begins, and Windlass reads only one in `vips: []`: correct it; docs/api-vip.md has an example",
            ),
        ],
        str::to_owned,
    );
    let error = parse(b"", "vip.yaml").unwrap_err().to_string();
    assert_eq!(
        error,
        "vip.yaml: vips: there is no virtual IP: list at least one, as `vips: [{address: 192.0.2.5, ports: [6443]}]`"
    );
    let error = parse(b"vips:\n- \xff", "vip.yaml").unwrap_err().to_string();
    assert_eq!(error, "vip.yaml:2:3: the file is not text in UTF-8: save it as such");
}

#[test]
fn fields_of_a_virtual_ip() {
    check(
        &[
            ("ports: [6443]", "2:3: vips[0].address: it is missing: write it as 192.0.2.5 or 2001:db8::5"),
            (
                "address: example.org",
                "2:13: vips[0].address: example.org is not an IP address: write it as 192.0.2.5 or 2001:db8::5",
            ),
            (
                "address: 127.0.0.1",
                "2:13: vips[0].address: 127.0.0.1 is a loopback address: use a unicast address of the LAN, as 192.0.2.5 or 2001:db8::5",
            ),
            (
                "address: 224.0.0.18",
                "2:13: vips[0].address: 224.0.0.18 is a multicast address: use a unicast address of the LAN, as 192.0.2.5 or 2001:db8::5",
            ),
            (
                "address: 0.0.0.0",
                "2:13: vips[0].address: 0.0.0.0 is the unspecified address: use a unicast address of the LAN, as 192.0.2.5 or 2001:db8::5",
            ),
            (
                "address: 255.255.255.255",
                "2:13: vips[0].address: 255.255.255.255 is the broadcast address: use a unicast address of the LAN, as 192.0.2.5 or 2001:db8::5",
            ),
            (
                "address: 0.1.2.3",
                "2:13: vips[0].address: 0.1.2.3 is an address of this network (0.0.0.0/8): use a unicast address of the LAN, as 192.0.2.5 or 2001:db8::5",
            ),
            (
                "address: '::ffff:192.0.2.5'",
                "2:13: vips[0].address: ::ffff:192.0.2.5 is an IPv4 address written as IPv6: use a unicast address of the LAN, as 192.0.2.5 or 2001:db8::5",
            ),
            (
                "address: ''",
                "2:13: vips[0].address: \"\" is not an IP address: write it as 192.0.2.5 or 2001:db8::5",
            ),
            (
                "address: 192.0.2.5, interface: eth/0",
                "2:35: vips[0].interface: eth/0 is not an interface name: give a name that `ip link` shows",
            ),
            (
                "address: 192.0.2.5, interface: sixteen-letters-",
                "2:35: vips[0].interface: sixteen-letters- is not an interface name: give a name that `ip link` shows",
            ),
            (
                "address: 192.0.2.5",
                "2:3: vips[0].ports: no port is given, and no check asks one on this host: name the port to serve, as 6443",
            ),
            (
                "address: 192.0.2.5, ports: []",
                "2:31: vips[0].ports: no port is given, and no check asks one on this host: name the port to serve, as 6443",
            ),
            ("address: 192.0.2.5, ports: [0]", "2:32: vips[0].ports[0]: 0 is out of range: use 1 to 65535"),
            (
                "address: 192.0.2.5, ports: [6443, 65536]",
                "2:38: vips[0].ports[1]: 65536 is out of range: use 1 to 65535",
            ),
            (
                "address: 192.0.2.5, ports: [https]",
                "2:32: vips[0].ports[0]: https is not a whole number: use 1 to 65535",
            ),
            (
                "address: 192.0.2.5, checks: [{tcp: {address: '192.0.2.9:53'}}]",
                "2:3: vips[0].ports: no port is given, and no check asks one on this host: name the port to serve, as 6443",
            ),
            (
                "address: 192.0.2.5, ports: [1], vrid: 0",
                "2:42: vips[0].vrid: 0 is out of range: use 1 to 255",
            ),
            (
                "address: 192.0.2.5, ports: [1], vrid: 256",
                "2:42: vips[0].vrid: 256 is out of range: use 1 to 255",
            ),
            (
                "address: 192.0.2.5, ports: [1], priority: 100",
                "2:46: vips[0].priority: 100 is out of range: use 101 to 200",
            ),
            (
                "address: 192.0.2.5, ports: [1], priority: high",
                "2:46: vips[0].priority: high is not a whole number: use 101 to 200",
            ),
            (
                "address: 192.0.2.5, ports: [1], preempt: yes",
                "2:45: vips[0].preempt: yes is neither true nor false: use one of the two",
            ),
            (
                "address: 192.0.2.5, ports: [1], advertIntervalMs: 105",
                "2:54: vips[0].advertIntervalMs: advertisement interval of 105 ms is not a multiple of 10 ms, the protocol's unit (RFC 9568 §5.2.7): use 10 to 40950 in steps of 10",
            ),
            (
                "address: 192.0.2.5, ports: [1], advertIntervalMs: 5",
                "2:54: vips[0].advertIntervalMs: 5 is out of range: use 10 to 40950",
            ),
            (
                "address: 192.0.2.5, ports: [1], peers: [node-2]",
                "2:44: vips[0].peers[0]: node-2 is not an IP address: write it as 192.0.2.12",
            ),
            (
                "address: 192.0.2.5, ports: [1], peers: ['2001:db8::2']",
                "2:44: vips[0].peers[0]: 2001:db8::2 is IPv6, and virtual IP 192.0.2.5 is IPv4: name peers of the virtual IP's family, as 192.0.2.12",
            ),
            (
                "address: 192.0.2.5, ports: [1], peers: [127.0.0.1]",
                "2:44: vips[0].peers[0]: 127.0.0.1 is a loopback address: use a unicast address of the LAN, as 192.0.2.12",
            ),
            (
                "address: 192.0.2.5, ports: [1], peers: [192.0.2.5]",
                "2:44: vips[0].peers[0]: 192.0.2.5 is a virtual IP: give the node's own address",
            ),
            (
                "address: 192.0.2.5, ports: [1], peers: [192.0.2.6, 192.0.2.6]",
                "2:55: vips[0].peers[1]: 192.0.2.6 is named twice: name it once",
            ),
            (
                "address: 192.0.2.5, ports: [1], multicast: false",
                "2:47: vips[0].multicast: without multicast and without peers no node would receive this \
                 node's adverts: name the other nodes as peers",
            ),
        ],
        |fields| format!("vips:\n- {{{fields}}}"),
    );
}

#[test]
fn virtual_ips_beside_each_other() {
    check(
        &[
            (
                "address: 192.0.2.5, ports: [1]",
                "3:13: vips[1].address: 192.0.2.5 is given twice: give each address once",
            ),
            (
                "address: 192.0.2.6, ports: [1], vrid: 7",
                "3:42: vips[1].vrid: virtual IP 192.0.2.5 already has VRID 7: give each virtual IP another VRID, or leave it out and Windlass chooses one",
            ),
            (
                "address: 192.0.2.6, ports: [1], vrid: 7, interface: eth0",
                "3:42: vips[1].vrid: virtual IP 192.0.2.5 already has VRID 7: give each virtual IP another VRID, or leave it out and Windlass chooses one",
            ),
            (
                "address: 192.0.2.6, ports: [1], peers: [192.0.2.5]",
                "3:44: vips[1].peers[0]: 192.0.2.5 is a virtual IP: give the node's own address",
            ),
        ],
        |fields| format!("vips:\n- {{address: 192.0.2.5, ports: [1], vrid: 7}}\n- {{{fields}}}"),
    );
}

#[test]
fn checks() {
    check(
        &[
            (
                "weight: 1",
                "4:5: vips[0].checks[0]: the check has no kind: give one of http, https, tcp, grpc and \
                 command",
            ),
            (
                "tcp: {address: '127.0.0.1:1'}, grpc: {address: '127.0.0.1:1'}",
                "4:5: vips[0].checks[0]: a check has exactly one kind, and this check has several: give one of http, \
                 https, tcp, grpc and command, and make a check of each",
            ),
            (
                "http: {}",
                "4:12: vips[0].checks[0].http.url: it is missing: write it as https://127.0.0.1:6443/readyz",
            ),
            (
                "http: {url: 'https://127.0.0.1/'}",
                "4:18: vips[0].checks[0].http.url: https://127.0.0.1/: it does not begin with http://: write it as https://127.0.0.1:6443/readyz",
            ),
            (
                "http: {url: '127.0.0.1:80'}",
                "4:18: vips[0].checks[0].http.url: 127.0.0.1:80: it does not begin with http://: write it as https://127.0.0.1:6443/readyz",
            ),
            (
                "http: {url: 'http://127.0.0.1:80/a b'}",
                "4:18: vips[0].checks[0].http.url: \"http://127.0.0.1:80/a b\": it is not a URL (invalid uri character): write it as https://127.0.0.1:6443/readyz",
            ),
            (
                "http: {url: 'http://example.org/'}",
                "4:18: vips[0].checks[0].http.url: http://example.org/: host \"example.org\" is not an IP address, and checks do not use DNS: use an IP address or localhost; IPv6 as [::1]",
            ),
            (
                "http: {url: 'http://user@127.0.0.1/'}",
                "4:18: vips[0].checks[0].http.url: \"http://user@127.0.0.1/\": a check sends no user name to the server: leave it out",
            ),
            (
                "http: {url: 'http://127.0.0.1/#top'}",
                "4:18: vips[0].checks[0].http.url: \"http://127.0.0.1/#top\": a check sends no fragment (#…) to the server: leave it out",
            ),
            (
                "http: {url: 'http://127.0.0.1:0/'}",
                "4:18: vips[0].checks[0].http.url: http://127.0.0.1:0/: \"0\" is not a port: give one from 1 to 65535, as 127.0.0.1:6443",
            ),
            (
                "http: {url: 'http://127.0.0.1:/'}",
                "4:18: vips[0].checks[0].http.url: http://127.0.0.1:/: \"\" is not a port: give one from 1 to 65535, as 127.0.0.1:6443",
            ),
            (
                "http: {url: 'http://[::1/'}",
                "4:18: vips[0].checks[0].http.url: http://[::1/: it is not a URL (invalid authority): write it as https://127.0.0.1:6443/readyz",
            ),
            (
                "http: {url: 'http://224.0.0.1/'}",
                "4:18: vips[0].checks[0].http.url: http://224.0.0.1/: 224.0.0.1 is a multicast address, and no server has it: use an IP address or localhost; IPv6 as [::1]",
            ),
            (
                "http: {url: 'http://127.0.0.1/', caFile: /ca.crt}",
                "4:47: vips[0].checks[0].http.caFile: plain HTTP has no certificate: leave it out, or use https",
            ),
            (
                "http: {url: 'http://127.0.0.1/', path: /}",
                "4:45: vips[0].checks[0].http.path: only a check of backends has the field path: write the path into url",
            ),
            (
                "http: {url: 'http://127.0.0.1/', expect: []}",
                "4:47: vips[0].checks[0].http.expect: the list is empty, so that no answer passes: name a status code, as [200]",
            ),
            (
                "http: {url: 'http://127.0.0.1/', expect: [200, 199]}",
                "4:53: vips[0].checks[0].http.expect[1]: 199 is out of range: use 200 to 599",
            ),
            (
                r#"http: {url: 'http://127.0.0.1/', host: "a\nb"}"#,
                "4:45: vips[0].checks[0].http.host: \"a\\nb\" cannot be a Host header: write it as example.org:6443",
            ),
            (
                "https: {url: 'https://127.0.0.1/', caFile: ca.crt}",
                "4:49: vips[0].checks[0].https.caFile: ca.crt is not an absolute path: begin it with /",
            ),
            (
                "https: {url: 'https://127.0.0.1/', certificateSha256: 12}",
                "4:60: vips[0].checks[0].https.certificateSha256: 12 is not a SHA-256 of 64 hexadecimal digits: write what `openssl x509 -noout -fingerprint -sha256 -in FILE` prints after =",
            ),
            (
                "https: {url: 'https://127.0.0.1/', serverName: 'a b'}",
                "4:53: vips[0].checks[0].https.serverName: \"a b\" cannot be the name in a certificate: give a DNS name or an IP address",
            ),
            (
                "https: {url: 'https://127.0.0.1/', caFile: /c, certificateSha256: \
                 0000000000000000000000000000000000000000000000000000000000000000}",
                "4:72: vips[0].checks[0].https.certificateSha256: the certificate's authority and its hash are both given: leave one out",
            ),
            ("tcp: {}", "4:11: vips[0].checks[0].tcp.address: it is missing: write it as 127.0.0.1:2379"),
            (
                "tcp: {address: 127.0.0.1}",
                "4:21: vips[0].checks[0].tcp.address: 127.0.0.1: the port is missing: give one from 1 to 65535, as 127.0.0.1:6443",
            ),
            (
                "tcp: {address: '127.0.0.1:0'}",
                "4:21: vips[0].checks[0].tcp.address: 127.0.0.1:0: \"0\" is not a port: give one from 1 to 65535, as 127.0.0.1:6443",
            ),
            (
                "tcp: {address: 'db:5432'}",
                "4:21: vips[0].checks[0].tcp.address: db:5432: host \"db\" is not an IP address, and checks do not use DNS: use an IP address or localhost; IPv6 as [::1]",
            ),
            (
                "tcp: {address: '::1:80'}",
                "4:21: vips[0].checks[0].tcp.address: ::1:80: host \"::1\" is not an IP address, and checks do not use DNS: use an IP address or localhost; IPv6 as [::1]",
            ),
            (
                "grpc: {address: '127.0.0.1:1', service: 'a b'}",
                "4:46: vips[0].checks[0].grpc.service: \"a b\" is not a service name: write it as etcdserverpb.KV",
            ),
            (
                "command: {}",
                "4:15: vips[0].checks[0].command.command: it is missing: give the program's absolute path and its arguments, as [/usr/bin/test, -e, /run/ready]",
            ),
            (
                "command: {command: []}",
                "4:25: vips[0].checks[0].command.command: it names no program: give the program's absolute path and its arguments, as [/usr/bin/test, -e, /run/ready]",
            ),
            (
                "command: {command: [test, -e, /x]}",
                "4:26: vips[0].checks[0].command.command[0]: test is not an absolute path: begin it with /: no shell looks it up",
            ),
            (
                "tcp: {address: '127.0.0.1:1'}, intervalMs: 10",
                "4:49: vips[0].checks[0].intervalMs: 10 is out of range: use 50 to 60000",
            ),
            (
                "tcp: {address: '127.0.0.1:1'}, intervalMs: 1s",
                "4:49: vips[0].checks[0].intervalMs: 1s is not a whole number: use 50 to 60000",
            ),
            (
                "tcp: {address: '127.0.0.1:1'}, timeoutMs: 800",
                "4:48: vips[0].checks[0].timeoutMs: 800 is longer than intervalMs 500: use at most 500, or a longer interval",
            ),
            (
                "tcp: {address: '127.0.0.1:1'}, timeoutMs: 0",
                "4:48: vips[0].checks[0].timeoutMs: 0 is out of range: use 10 to 60000",
            ),
            (
                "tcp: {address: '127.0.0.1:1'}, rise: 0",
                "4:43: vips[0].checks[0].rise: 0 is out of range: use 1 to 100",
            ),
            (
                "tcp: {address: '127.0.0.1:1'}, fall: 0",
                "4:43: vips[0].checks[0].fall: 0 is out of range: use 1 to 100",
            ),
            (
                "tcp: {address: '127.0.0.1:1'}, weight: 201",
                "4:45: vips[0].checks[0].weight: 201 is out of range: use 1 to 200",
            ),
            (
                "tcp: {address: '127.0.0.1:1'}, weight: 0",
                "4:45: vips[0].checks[0].weight: 0 is out of range: use 1 to 200",
            ),
        ],
        |fields| format!("vips:\n- address: 192.0.2.5\n  checks:\n  - {{{fields}}}"),
    );
}

#[test]
fn balancing() {
    check(
        &[
            (
                "source: Keep",
                "3:12: vips[0].balance.backends: it is missing: name the nodes that serve, as 192.0.2.11:6443, or leave balance out",
            ),
            (
                "backends: []",
                "3:23: vips[0].balance.backends: the list is empty: name the nodes that serve, as \
                 192.0.2.11:6443, or leave balance out",
            ),
            (
                "backends: [192.0.2.11]",
                "3:24: vips[0].balance.backends[0]: 192.0.2.11 is not an address with a port: write it as 192.0.2.11:6443",
            ),
            (
                "backends: ['192.0.2.11:0']",
                "3:24: vips[0].balance.backends[0]: 192.0.2.11:0 has port 0, which no server can use: use 1 \
                 to 65535",
            ),
            (
                "backends: ['[2001:db8::11]:6443']",
                "3:24: vips[0].balance.backends[0]: [2001:db8::11]:6443 is IPv6, and virtual IP 192.0.2.5 is IPv4: name backends of the virtual IP's family, as 192.0.2.11:6443",
            ),
            (
                "backends: ['192.0.2.5:6443']",
                "3:24: vips[0].balance.backends[0]: 192.0.2.5:6443 is a virtual IP: give the node's own address",
            ),
            (
                "backends: ['127.0.0.1:6443']",
                "3:24: vips[0].balance.backends[0]: 127.0.0.1:6443 has a loopback address: use the node's address on its network, as 192.0.2.11:6443",
            ),
            (
                "backends: ['192.0.2.11:1', '192.0.2.11:1']",
                "3:40: vips[0].balance.backends[1]: 192.0.2.11:1 is named twice: name it once",
            ),
            (
                "backends: ['192.0.2.11:1', '192.0.2.11:2']",
                "2:3: vips[0].ports: no port is given, and no check asks one on this host: name the port to serve, as 6443",
            ),
            (
                "backends: ['192.0.2.11:1'], source: keep",
                "3:49: vips[0].balance.source: keep is neither Masquerade nor Keep: use one of the two",
            ),
            (
                "backends: ['192.0.2.11:1'], check: {}",
                "3:48: vips[0].balance.check: the check has no kind: give one of http, https, tcp and grpc",
            ),
            (
                "backends: ['192.0.2.11:1'], check: {command: {command: [/bin/true]}}",
                "3:58: vips[0].balance.check.command: a command runs on this node and cannot check a \
                 backend: give one of http, https, tcp and grpc",
            ),
            (
                "backends: ['192.0.2.11:1'], check: {http: {url: 'http://192.0.2.11/'}}",
                "3:61: vips[0].balance.check.http.url: Windlass asks each backend at its own address: give path instead, as /readyz",
            ),
            (
                "backends: ['192.0.2.11:1'], check: {http: {path: readyz}}",
                "3:62: vips[0].balance.check.http.path: readyz is not the path of a page: write it as /readyz",
            ),
            (
                "backends: ['192.0.2.11:1'], check: {tcp: {address: '192.0.2.11:1'}}",
                "3:64: vips[0].balance.check.tcp.address: 192.0.2.11:1 is not used, because Windlass asks each backend at its own address: leave it out",
            ),
            (
                "backends: ['192.0.2.11:1'], check: {tcp: {}, weight: 5}",
                "3:66: vips[0].balance.check.weight: a check of backends has no weight, because a backend has no priority: leave it out",
            ),
            (
                "backends: ['192.0.2.11:1'], check: {tcp: {}, timeoutMs: 501}",
                "3:69: vips[0].balance.check.timeoutMs: 501 is longer than intervalMs 500: use at most 500, or a longer interval",
            ),
        ],
        |fields| format!("vips:\n- address: 192.0.2.5\n  balance: {{{fields}}}"),
    );
    check(
        &[
            (
                "ports: [1, 2]",
                "2:70: vips[0].ports: connections to ports 1, 2 would go to the same port of a backend: balance one port",
            ),
            (
                "ports: [1], bind: true",
                "2:33: vips[0].balance: with bind, this node's own programs serve the address, and Windlass balances none of its connections: leave out balance or bind",
            ),
        ],
        |fields| {
            format!("vips:\n- {{address: 192.0.2.5, balance: {{backends: ['192.0.2.11:1']}}, {fields}}}")
        },
    );
}
