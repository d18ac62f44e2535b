//! Features and grants of the kernel: capabilities, nf_tables, connection tracking, IPv6, real-time scheduling, SELinux.

use super::Host;
use crate::inspect::problems::Problem;

/// Capabilities: number in `linux/capability.h`, name, and true if nothing works without it.
const CAPABILITIES: [(u8, &str, bool); 4] = [
    (12, "CAP_NET_ADMIN", true),
    (13, "CAP_NET_RAW", true),
    (23, "CAP_SYS_NICE", false),
    (14, "CAP_IPC_LOCK", false),
];
/// A table of connections that is fuller drops connections soon, in percent.
const FULL: u64 = 80;
/// Least share of real-time threads that leaves VRRP its timers, in microseconds of a second.
const LEAST_REALTIME: i64 = 500_000;

pub(super) fn findings(host: &Host) -> Vec<Problem> {
    let mut findings = capabilities(host.capabilities);
    if let Some(why) = &host.nf_tables {
        let message = format!(
            "nf_tables does not answer ({why}): there is no guard, and connections are not forwarded after a move"
        );
        findings.push(Problem::warning("Host", "nf_tables", "KernelFeature").says(
            message,
            "load the module (modprobe nf_tables), or use a kernel with CONFIG_NF_TABLES_INET",
        ));
    } else if let Some(why) = &host.sharing {
        let message = format!(
            "the kernel cannot direct packets ({why}): this node shares no address with others (loadSharing)"
        );
        findings.push(Problem::warning("Host", "nft_fwd_netdev", "KernelFeature").says(
            message,
            "load the modules (modprobe --all nft_fwd_netdev nft_hash), or use a kernel with CONFIG_NFT_FWD_NETDEV and CONFIG_NFT_HASH",
        ));
    }
    findings.extend(tracking(&host.tracking));
    if !host.has_ipv6 {
        findings.push(Problem::warning("Host", "IPv6", "KernelFeature").says(
            "no interface has an IPv6 address: this node announces no IPv6 address",
            "nothing, if there are to be none; else set net.ipv6.conf.all.disable_ipv6=0",
        ));
    }
    findings.extend(realtime(host));
    findings.extend(host.is_selinux_enforcing.then(selinux));
    findings
}

fn capabilities(held: u64) -> Vec<Problem> {
    let missing = CAPABILITIES.iter().filter(|(bit, ..)| held >> bit & 1 == 0);
    let finding = |(bit, name, is_needed): &(u8, &'static str, bool)| {
        let message = format!("this process does not have {name} (bit {bit} of CapEff {held:x})");
        if *is_needed {
            Problem::error("Host", *name, "NoCapability").says(
                message,
                "run this as root; give the agent's container this capability (manifests/base/agent.yaml)",
            )
        } else {
            Problem::warning("Host", *name, "NoCapability")
                .says(message, "give it the agent: without it timers of VRRP are late on a busy node")
        }
    };
    missing.map(finding).collect()
}

fn tracking(tracking: &Result<(u32, u32), String>) -> Option<Problem> {
    let (message, remedy) = match tracking {
        Err(why) => (
            format!(
                "connection tracking does not answer by netlink ({why}): connections are neither forwarded nor replicated"
            ),
            "load the module (modprobe nf_conntrack_netlink)".to_owned(),
        ),
        Ok((entries, limit)) if *limit > 0 && u64::from(*entries) * 100 >= u64::from(*limit) * FULL => (
            format!(
                "{entries} connections are tracked, and nf_conntrack_max is {limit}: new ones are dropped when it is full"
            ),
            format!("sysctl -w net.netfilter.nf_conntrack_max={}", u64::from(*limit).saturating_mul(2)),
        ),
        Ok(_) => return None,
    };
    Some(Problem::warning("Host", "nf_conntrack", "KernelFeature").says(message, remedy))
}

/// A kernel with `CONFIG_RT_GROUP_SCHED` grants a cgroup no real-time scheduling unless it has a share of it.
fn realtime(host: &Host) -> Option<Problem> {
    let share = "kernel.sched_rt_runtime_us".to_owned();
    let of_cgroup = host.cgroup_realtime.iter().map(|(path, share)| (path.clone(), *share));
    let all = host.realtime.map(|value| (share, value)).into_iter().chain(of_cgroup);
    let (setting, value) = all.into_iter().find(|(_, value)| (0..LEAST_REALTIME).contains(value))?;
    let remedy = if setting.starts_with('/') {
        format!(
            "echo 950000 >{setting}, from the root of the hierarchy downwards; or run the agent with --realtime=false"
        )
    } else {
        format!("sysctl -w {setting}=950000, or run the agent with --realtime=false")
    };
    let message = format!(
        "{setting} is {value}: threads with real-time priority run for at most {} ms of each second, so adverts are late under load",
        value / 1000
    );
    Some(Problem::warning("Host", "real-time", "RealtimeThrottled").says(message, remedy))
}

fn selinux() -> Problem {
    Problem::warning("Host", "SELinux", "SELinux").says(
        "SELinux is enforcing: the container of the agent may be refused its folder /var/lib/windlass, raw sockets and nf_tables",
        "start the agent with seLinuxOptions.type=spc_t (chart: --set agent.seLinuxOptions.type=spc_t), and look for denials: \
         ausearch --message avc --comm windlass",
    )
}
