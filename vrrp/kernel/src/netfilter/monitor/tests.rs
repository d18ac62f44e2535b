use std::process::Command;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};

use super::*;
use crate::lab::in_namespace;
use crate::poll::poll;

fn is_readable(monitor: &RulesetMonitor, limit: Duration) -> bool {
    poll(&mut [PollFd::new(monitor.as_fd(), PollFlags::POLLIN)], Some(limit), "changes")
}

#[test]
fn a_change_of_any_table_is_noticed_until_the_notices_are_drained() {
    in_namespace(|| {
        let monitor = RulesetMonitor::open().unwrap();
        for change in ["add table inet other", "flush ruleset", "add table netdev other"] {
            assert!(!is_readable(&monitor, Duration::ZERO), "before {change}");
            assert!(Command::new("nft").args(change.split(' ')).status().unwrap().success());
            assert!(is_readable(&monitor, Duration::from_secs(10)), "{change}");
            monitor.drain().unwrap();
        }
    });
}

#[test]
fn notices_that_were_lost_are_drained_like_others() {
    in_namespace(|| {
        let monitor = RulesetMonitor::open().unwrap();
        let mut script = vec!["table inet other { set s { type mark; }; };".to_owned()];
        script.extend((0..20_000).map(|n| format!("add element inet other s {{ {n} }}")));
        let file = std::env::temp_dir().join(format!("windlass-monitor-{}", std::process::id()));
        std::fs::write(&file, script.join("\n")).unwrap();
        assert!(Command::new("nft").arg("-f").arg(&file).status().unwrap().success());
        std::fs::remove_file(&file).unwrap();
        assert!(is_readable(&monitor, Duration::from_secs(10)));
        monitor.drain().unwrap();
        assert!(!is_readable(&monitor, Duration::ZERO));
    });
}
