//! A process that lacks a capability.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use windlass_engine::{Engine, Event, Hold, Options, RouterConfig, Vrid};

use crate::lab::{Host, Lan, require_root, router};

const MARK: &str = "WINDLASS_TEST_CAPABILITIES";

/// Not a test of its own: the process that the tests below start. Prints what becomes of two routers.
#[test]
#[ignore = "the body of other tests' process"]
fn engine_process() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    let mut options = Options::new(|event| match event {
        Event::StateChanged { key, state, .. } => println!("\n{MARK} {key}: {state}"),
        Event::Failed { error, .. } => println!("\n{MARK} {error}"),
        _ => {}
    });
    options.guard = true;
    match Engine::start(options) {
        Ok(engine) => {
            let address = RouterConfig {
                hold: Hold::Address,
                vrid: Vrid::new(8).unwrap(),
                addresses: [[192, 0, 2, 51].into()].into(),
                ..router(0, 1)
            };
            engine.apply(vec![address, router(0, 1)]);
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
        Err(error) => println!("\n{MARK} {error}"),
    }
}

/// What the process says, without this capability.
fn lines_without(capability: &str, host: &Host, count: usize) -> Vec<String> {
    let capability = capability.to_owned();
    let mut child = host.run(move || {
        Command::new("setpriv")
            .args(["--bounding-set", &format!("-{capability}"), "--inh-caps", &format!("-{capability}")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "capabilities::engine_process", "--ignored", "--nocapture"])
            .env(MARK, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("run `setpriv` of util-linux")
    });
    let told = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut told = told.filter_map(|line| line.strip_prefix(&format!("{MARK} ")).map(str::to_owned));
    let lines = told.by_ref().take(count).collect();
    drop(child.stdin.take());
    // To the end, or its last words would find nobody.
    told.for_each(drop);
    let _ = child.wait();
    lines
}

#[test]
fn without_raw_sockets_the_engine_does_not_start_and_names_the_capability() {
    if !require_root() {
        return;
    }
    let lines = lines_without("net_raw", &Lan::new(1).hosts[0], 1);
    assert!(lines[0].contains("lacks CAP_NET_RAW") && lines[0].contains("add: [NET_RAW]"), "{lines:?}");
}

#[test]
fn without_net_admin_what_binds_addresses_fails_by_name_and_the_rest_runs() {
    if !require_root() {
        return;
    }
    let lines = lines_without("net_admin", &Lan::new(1).hosts[0], 3);
    let failed = lines.iter().find(|line| line.contains("VRID 8")).unwrap();
    assert!(failed.contains("lacks CAP_NET_ADMIN") && failed.contains("add: [NET_ADMIN]"), "{lines:?}");
    assert!(lines.contains(&"VRID 7 for IPv4 on eth0: active".to_owned()), "{lines:?}");
}
