//! ExaBGP, which has no table: its messages are read from a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::{AS_TRANS, Kind, LINK_LOCAL, Maker, Neighbour, PASSWORD, ROUTER, configuration};
use crate::interop::process::{Daemon, TempDir};
use crate::lab::{Host, await_some};

pub(crate) struct ExaBgp {
    daemon: Daemon,
    scratch: TempDir,
}

impl ExaBgp {
    /// Messages so far.
    fn messages(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.scratch.path("messages")).unwrap_or_default();
        // Its JSON has control characters of the texts in it.
        let clean = |line: &str| line.replace(char::is_control, "");
        text.lines().filter_map(|line| serde_json::from_str(&clean(line)).ok()).collect()
    }

    fn order(&self, order: &str) {
        fs::write(self.scratch.path("orders"), format!("{order}\n")).expect("the pipe");
    }
}

/// Prefixes of `announce` or `withdraw`, of all families and next hops.
fn listed(part: &Value) -> BTreeSet<String> {
    match part {
        Value::Object(fields) => match fields.get("nlri") {
            Some(Value::String(prefix)) => BTreeSet::from([prefix.clone()]),
            _ => fields.values().flat_map(listed).collect(),
        },
        Value::Array(items) => items.iter().flat_map(listed).collect(),
        _ => BTreeSet::new(),
    }
}

fn settings(neighbour: &Neighbour) -> String {
    let Neighbour { own, router, asn, kind, hold_time } = neighbour;
    let more = match kind {
        Kind::Plain | Kind::TwoOctets => String::new(),
        Kind::Password => format!("md5-password {PASSWORD};"),
        Kind::TtlSecurity => "incoming-ttl 255;".to_owned(),
        Kind::Multihop => "outgoing-ttl 2;".to_owned(),
        Kind::ExtendedNextHop => "nexthop { ipv4 unicast ipv6; }".to_owned(),
    };
    // It does not read the capability that it does not offer.
    let peer_as = if *kind == Kind::TwoOctets { AS_TRANS } else { *asn };
    let capability = match kind {
        Kind::ExtendedNextHop => "nexthop enable;",
        Kind::TwoOctets => "asn4 disable;",
        Kind::Plain | Kind::Password | Kind::TtlSecurity | Kind::Multihop => "",
    };
    format!(
        "neighbor {own} {{
            router-id 192.0.2.2;
            local-address {router};
            local-as {ROUTER};
            peer-as {peer_as};
            hold-time {hold_time};
            passive true;
            listen 179;
            {more}
            capability {{ route-refresh enable; {capability} }}
            family {{ ipv4 unicast; ipv6 unicast; }}
            api {{ processes [ messages ]; neighbor-changes; receive {{ parsed; update; notification; }} }}
        }}\n"
    )
}

impl Maker for ExaBgp {
    const PROGRAM: &str = "/usr/sbin/exabgp";
    const CANNOT: &[&str] = &[LINK_LOCAL.own];
    /// 4.2 cannot read a NOTIFICATION with a text.
    const LEFT: &str = "can not decode update message of type";
    const EXTENDED_NEXT_HOP: bool = true;
    const PRINTED: [&[&str]; 2] = [
        &[
            r#""as-path":[64512,64512]"#,
            r#""192.0.2.1":[{"nlri""#,
            r#""med":50"#,
            r#""community":[[64512,100],[65535,65281]]"#,
            r#""large-community":[[64512,1,2]]"#,
            r#""string":"target:64512:7""#,
            r#""string":"origin:64512:0.0.0.8""#,
        ],
        &[r#""192.0.2.11":[{"nlri""#, r#""local-preference":150"#],
    ];
    const DEGRADED: [&[&str]; 2] = [
        &[
            r#""as-path":[64512,64512,64512,64512,64512,64512,64512]"#,
            r#""community":[[64512,100],[65535,0],[65535,65281]]"#,
        ],
        &[r#""local-preference":0"#],
    ];
    const TWO_OCTETS: &str = r#""as-path":[4200000001,4200000001]"#;

    fn start(host: &Host) -> Self {
        let scratch = TempDir::new();
        let (messages, orders) = (scratch.path("messages"), scratch.path("orders"));
        nix::unistd::mkfifo(&*orders, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let script = scratch.write("script", &format!("cat <>{orders} & exec cat >{messages}"));
        let configuration = format!(
            "process messages {{ run /bin/sh {script}; encoder json; }}\n{}",
            configuration::<Self>(settings)
        );
        let file = scratch.write("exabgp.conf", &configuration);
        let settings = ["exabgp.daemon.user=root"];
        let command = [&["/usr/bin/env"], &settings[..], &[Self::PROGRAM, &file]].concat();
        let daemon = Daemon::start(host, &scratch, "exabgp", &command);
        let exabgp = Self { daemon, scratch };
        await_some("ExaBGP's start", || {
            exabgp.daemon.printed().contains("loaded new configuration").then_some(())
        });
        exabgp
    }

    fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    fn prefixes(&self) -> BTreeSet<String> {
        let mut there: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for message in self.messages() {
            let neighbour = &message["neighbor"];
            let prefixes = there.entry(neighbour["address"]["peer"].to_string()).or_default();
            let update = &neighbour["message"]["update"];
            *prefixes = &*prefixes - &listed(&update["withdraw"]);
            prefixes.extend(listed(&update["announce"]));
            if neighbour["state"] == "down" {
                prefixes.clear();
            }
        }
        there.into_values().flatten().collect()
    }

    fn route(&self, prefix: &str) -> String {
        let mut found = self.messages().into_iter().rev();
        let of_it =
            |message: &Value| listed(&message["neighbor"]["message"]["update"]["announce"]).contains(prefix);
        found.find(of_it).unwrap_or_default().to_string()
    }

    fn refresh(&self, neighbour: &str) -> bool {
        self.order(&format!("neighbor {neighbour} announce route-refresh ipv4 unicast"));
        true
    }

    fn shut_down(&self, neighbour: &str, _text: &str) -> bool {
        // Version 4.2 sends the subcode alone.
        self.order(&format!("neighbor {neighbour} teardown 2"));
        false
    }

    fn ending(&self, neighbour: &str) -> String {
        let of_it = |message: &Value| message["neighbor"]["address"]["peer"] == neighbour;
        self.messages().iter().filter(|message| of_it(message)).map(Value::to_string).collect()
    }
}
