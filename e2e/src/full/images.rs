//! Container images, none of which is pulled: archives that the lab writes itself, and Windlass' own of `make image`.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, ensure};

use crate::tools::{self, Tools};

/// Kubernetes' test program: backends and clients.
pub(super) const AGNHOST: &str = "windlass.lab/agnhost:lab";
/// Image of the container that holds a pod's namespaces.
pub(super) const PAUSE: &str = "windlass.lab/pause:lab";

/// The archives that every node imports. Windlass' is among them if `make image` has made it.
pub(super) fn archives(tools: &Tools) -> anyhow::Result<Vec<PathBuf>> {
    let mut archives = vec![agnhost(tools)?];
    let windlass = tools::image_archive();
    if windlass.is_file() {
        archives.push(windlass);
    } else {
        eprintln!(
            "lab: {} is not there, so Windlass cannot run in pods: run 'make image'",
            windlass.display()
        );
    }
    Ok(archives)
}

/// The archive with agnhost and pause, which are one program; written once for each build of it.
fn agnhost(tools: &Tools) -> anyhow::Result<PathBuf> {
    let program = PathBuf::from(tools.path("agnhost"));
    let about = fs::metadata(&program).with_context(|| format!("reading {}", program.display()))?;
    let built = about.modified().unwrap_or(SystemTime::UNIX_EPOCH).duration_since(UNIX_EPOCH)?.as_secs();
    let folder = tools::target().join("lab-images");
    let archive = folder.join(format!("agnhost-{built}-{}.tar", about.len()));
    if archive.is_file() {
        return Ok(archive);
    }
    let work = folder.join(format!("work-{}", std::process::id()));
    fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
    // Written aside and renamed: another lab may be doing the same.
    let output = Command::new("sh")
        .args(["-ec", SCRIPT, "sh"])
        .arg(&program)
        .args([AGNHOST, PAUSE])
        .arg(&archive)
        .current_dir(&work)
        .output()?;
    let _ = fs::remove_dir_all(&work);
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "writing {}: {}", archive.display(), complaints.trim());
    tools::give_back(&folder)?;
    Ok(archive)
}

/// `$1` program, `$2` and `$3` names of the images, `$4` archive: one layer with one file, in docker-archive format.
const SCRIPT: &str = r#"
reproducible='--owner=0 --group=0 --numeric-owner --mtime=@0'
cp "$1" agnhost
tar $reproducible -cf layer.tar agnhost
layer=$(sha256sum layer.tar | cut -d' ' -f1)
case $(uname -m) in aarch64) architecture=arm64 ;; *) architecture=amd64 ;; esac
config() {
  printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/agnhost"],"Cmd":["%s"]},' "$architecture" "$1"
  printf '"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$layer"
}
config help >agnhost.json
config pause >pause.json
printf '[{"Config":"agnhost.json","RepoTags":["%s"],"Layers":["layer.tar"]},' "$2" >manifest.json
printf '{"Config":"pause.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$3" >>manifest.json
tar $reproducible -cf archive.tar manifest.json agnhost.json pause.json layer.tar
mv archive.tar "$4"
"#;
