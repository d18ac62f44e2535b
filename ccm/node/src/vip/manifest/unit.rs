//! The unit of systemd. Its rights are those of the static pod.

use std::net::IpAddr;
use std::path::Path;

use crate::vip::settings::Settings;

const PROGRAM: &str = "/usr/local/bin/windlass";

/// The unit that runs Windlass with these words.
pub(super) fn unit(settings: &Settings, socket: &Path, words: &[String]) -> String {
    let addresses: Vec<IpAddr> = settings.vips.iter().map(|vip| vip.address).collect();
    let addresses = addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
    let command: Vec<String> =
        std::iter::once(PROGRAM).chain(words.iter().map(String::as_str)).map(quoted).collect();
    let command = command.join(" ");
    let folder = socket_folder(socket);
    // Keys and passwords are readable by their owner alone, who is root as a rule; without them nobody need be root.
    let has_secrets = settings.keys_dir.is_some() || settings.password_files().next().is_some();
    let user = if has_secrets { "User=root" } else { "DynamicUser=yes" };
    format!(
        "[Unit]
Description=Windlass: virtual IP {addresses}
Documentation=https://windlass.dev
After=network.target
Before=kubelet.service k3s.service rke2-server.service
# systemd restarts it however often it exits.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
Restart=always
RestartSec=1
# Resigning takes a fraction of a second, leaving BGP routers up to 4 s.
TimeoutStopSec=10
OOMScoreAdjust=-900
{user}
{folder}
UMask=0077
# NET_RAW: adverts, ARP. NET_ADMIN: nftables tables, addresses. SYS_NICE: real-time priority of its threads. IPC_LOCK: it is never
# swapped out. Programs that checks run have them, too.
AmbientCapabilities=CAP_IPC_LOCK CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_NICE
CapabilityBoundingSet=CAP_IPC_LOCK CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_NICE
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictNamespaces=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_UNIX
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"
    )
}

/// Returns the directive that permits its socket: systemd makes a folder in `/run`, another one has to be there.
fn socket_folder(socket: &Path) -> String {
    let folder = socket.parent().unwrap_or(socket);
    match folder.strip_prefix("/run") {
        Ok(name) if !name.as_os_str().is_empty() => {
            format!("RuntimeDirectory={}", quoted(&name.display().to_string()))
        }
        Ok(_) | Err(_) => format!("ReadWritePaths={}", quoted(&folder.display().to_string())),
    }
}

/// A word as systemd reads it back (systemd.service(5), command lines, and systemd.syntax(7), quoting): neither specifiers nor variables
/// are put in.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+[]".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '%' | '$' => text.extend([c, c]),
            c if c.is_ascii_control() => text.extend(format!("\\x{:02x}", u32::from(c)).chars()),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}
