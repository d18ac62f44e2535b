//! conntrackd, Debian's, beside keepalived: what each of two nodes knows of connections is told to the other, which puts it into its
//! kernel when it becomes Active.
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
/// Where Debian has it.
const PROGRAM: &str = "/usr/sbin/conntrackd";
/// Of the lab's own: UDP.
const PORT: u16 = 3780;

impl Lab {
    /// Starts conntrackd on a node, as the peer of that on another. It dies with the node. keepalived tells it what to do:
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

    /// What conntrackd on a node has counted. An error while it starts.
    pub async fn conntrackd_counts(&self, node: &str) -> anyhow::Result<String> {
        let file = self.conntrackd_folder(node).join(CONFIGURATION);
        self.exec(node, &[PROGRAM, "-C", &file.display().to_string(), "-s"]).await
    }

    /// Its files.
    fn conntrackd_folder(&self, node: &str) -> PathBuf {
        self.folder().join(format!("{CONNTRACKD}-{node}"))
    }

    /// What keepalived calls.
    pub(crate) fn conntrackd_script(&self, node: &str) -> PathBuf {
        self.conntrackd_folder(node).join("notify")
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

/// All TCP connections but the node's own are told. The sizes are those of the package's example.
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

/// What the manual has a script do: who becomes Active puts what it was told into its kernel, forgets it, looks at its kernel anew
/// and tells the other all of it; who becomes Backup lets its own go by and asks for the other's.
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
