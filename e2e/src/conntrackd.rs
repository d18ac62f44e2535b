//! conntrackd, Debian's, beside keepalived: two nodes send each other their tracked connections; the new Active writes them
//! into its kernel.
//!
//! Set up for a primary and a backup as the conntrack-tools user manual has it ("Setting up conntrackd", "Active-Backup setup", and the
//! examples of the package, `/usr/share/doc/conntrackd/examples/sync`): mode FTFW, external cache, and a script that keepalived
//! calls, which conntrackd.conf(5) advises over `DisableExternalCache`.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use crate::lab::Lab;

/// Name of the process, and of its files.
const CONNTRACKD: &str = "conntrackd";
const CONFIGURATION: &str = "conntrackd.conf";
/// Path of the program on Debian.
const PROGRAM: &str = "/usr/sbin/conntrackd";
/// UDP port of the lab's own choice.
const PORT: u16 = 3780;

impl Lab {
    /// Starts conntrackd on a node, as the peer of that on another. It dies with the node. keepalived controls it:
    /// [`Lab::start_keepalived_telling`].
    pub fn start_conntrackd(&self, node: &str, peer: &str) -> anyhow::Result<()> {
        let (own, peer) = (self.node(node)?.address(), self.node(peer)?.address());
        let folder = self.conntrackd_folder(node);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let (file, script) = (folder.join(CONFIGURATION), self.conntrackd_script(node));
        // One that was killed leaves its lock, by which the next one refuses to start.
        let run = format!("/run/lab/{CONNTRACKD}-{node}");
        self.sandbox.script(&format!("rm -f {run}.lock {run}.ctl"))?;
        write(&file, &configuration(own, peer, &run, &folder.join("conntrackd.log")))?;
        write(&script, &notify(&file))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        let command = [PROGRAM, "-C", &file.display().to_string()];
        self.start_on_node(node, CONNTRACKD, command.map(str::to_owned).to_vec())
    }

    /// Returns the counters of conntrackd on a node; an error while it starts.
    pub async fn conntrackd_counts(&self, node: &str) -> anyhow::Result<String> {
        let file = self.conntrackd_folder(node).join(CONFIGURATION);
        self.exec(node, &[PROGRAM, "-C", &file.display().to_string(), "-s"]).await
    }

    /// Folder of its files.
    fn conntrackd_folder(&self, node: &str) -> PathBuf {
        self.folder().join(format!("{CONNTRACKD}-{node}"))
    }

    /// Path of the script that keepalived calls.
    pub(crate) fn conntrackd_script(&self, node: &str) -> PathBuf {
        self.conntrackd_folder(node).join("notify")
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

/// Returns the configuration: all TCP connections but the node's own are replicated. The sizes are those of the package's example.
fn configuration(own: Ipv4Addr, peer: Ipv4Addr, run: &str, log: &Path) -> String {
    format!(
        "Sync {{
            Mode FTFW {{ DisableExternalCache no }}
            UDP {{
                IPv4_address {own}
                IPv4_Destination_Address {peer}
                Port {PORT}
                Interface eth0
                SndSocketBuffer 1249280
                RcvSocketBuffer 1249280
                Checksum on
            }}
        }}
        General {{
            HashSize 32768
            HashLimit 131072
            LogFile {log}
            LockFile {run}.lock
            UNIX {{ Path {run}.ctl }}
            NetlinkBufferSize 2097152
            NetlinkBufferSizeMaxGrowth 8388608
            Filter From Userspace {{
                Protocol Accept {{ TCP }}
                Address Ignore {{ IPv4_address 127.0.0.1 IPv4_address {own} }}
            }}
        }}\n",
        log = log.display(),
    )
}

/// Returns the script of the conntrackd manual. A new Active commits the external cache to its kernel, flushes the caches,
/// resynchronises with its kernel and sends a bulk update to the peer. A new Backup shortens the timers of its own entries
/// and requests the peer's table.
fn notify(file: &Path) -> String {
    let ask = format!("{PROGRAM} -C '{}'", file.display());
    format!(
        "#!/bin/sh
         case $1 in
         primary) {ask} -c; {ask} -f; {ask} -R; {ask} -B ;;
         backup) {ask} -t; {ask} -n ;;
         fault) {ask} -t ;;
         esac\n"
    )
}
