//! A lab leaves nothing behind, however its owner ends.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use windlass_e2e::{Lab, scenario};

/// Set for the process that holds a lab until it is killed.
const HOLDER: &str = "WINDLASS_LAB_HOLDER";

/// Not a test by itself: the child process of the tests below, which run it with `HOLDER` set.
#[test]
fn holder() -> anyhow::Result<()> {
    let Ok(kind) = std::env::var(HOLDER) else { return Ok(()) };
    let builder = Lab::builder().nodes(2).client("c1").no_limit();
    let builder = if kind == "light" { builder.light() } else { builder };
    scenario(&format!("teardown-{kind}"), builder, async |lab| {
        lab.backend("web", &["n1", "n2"]).await?;
        println!("\nheld {}", lab.init());
        std::future::pending().await
    })
}

#[test]
fn sigkill_of_the_owner_of_a_light_lab_leaves_no_process_mount_or_namespace() -> anyhow::Result<()> {
    sigkill_leaves_nothing("light")
}

#[test]
fn sigkill_of_the_owner_of_a_full_lab_leaves_no_process_mount_or_namespace() -> anyhow::Result<()> {
    sigkill_leaves_nothing("full")?;
    // No namespace takes cgroups along: the next lab removes them.
    scenario("teardown-next", Lab::builder().light(), async |_| {
        let left = Command::new("find").args(["/sys/fs/cgroup", "-name", "teardown-full-*"]).output()?;
        let left = String::from_utf8_lossy(&left.stdout).into_owned();
        ensure!(left.is_empty(), "cgroups of the dead lab are left:\n{left}");
        Ok(())
    })
}

fn sigkill_leaves_nothing(kind: &str) -> anyhow::Result<()> {
    if !nix::unistd::Uid::effective().is_root() {
        // The scenario itself decides whether that is a failure.
        return scenario("teardown", Lab::builder(), async |_| Ok(()));
    }
    let mut owner = Command::new(std::env::current_exe()?)
        .args(["--exact", "teardown::holder", "--nocapture"])
        .env(HOLDER, kind)
        .stdout(Stdio::piped())
        .spawn()?;
    let init = held(&mut owner)?;
    let namespace = |pid: &str, kind: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}"));
    let (pids, mounts) = (namespace(&init, "pid")?, namespace(&init, "mnt")?);
    let members = || -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let pid = entry.file_name().to_string_lossy().into_owned();
            let inside = |kind: &str, of: &Path| namespace(&pid, kind).is_ok_and(|link| link == of);
            if inside("pid", &pids) || inside("mnt", &mounts) {
                found.push(pid);
            }
        }
        Ok(found)
    };
    ensure!(members()?.len() > 5, "a lab has many processes, seen {:?}", members()?);

    owner.kill()?;
    owner.wait()?;
    let limit = Instant::now() + Duration::from_secs(30);
    while !members()?.is_empty() {
        ensure!(Instant::now() < limit, "still there after 30 s: {:?}", members()?);
        std::thread::sleep(Duration::from_millis(20));
    }
    // No process is in the namespaces, so only a bind mount could keep them: the host's mounts have none of a lab.
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    ensure!(!mounts.contains("windlass-lab"), "a mount of the lab is left:\n{mounts}");
    let named: Vec<_> =
        fs::read_dir("/run/netns").into_iter().flatten().flatten().map(|e| e.file_name()).collect();
    ensure!(
        !named.iter().any(|name| name == "n1" || name == "lan"),
        "network namespaces are left: {named:?}"
    );
    Ok(())
}

/// Reads the owner's output until it says that it holds a lab, and returns the process id of the lab's init.
fn held(owner: &mut Child) -> anyhow::Result<String> {
    let output = owner.stdout.take().context("no output")?;
    for line in BufReader::new(output).lines() {
        if let Some(init) = line?.strip_prefix("held ") {
            return Ok(init.to_owned());
        }
    }
    anyhow::bail!("the owner ended without holding a lab: {}", owner.wait()?)
}
