//! Tells the program for which target and by which compiler it is built, which `windlass version` prints. Nothing of this changes from
//! commit to commit: what does (`WINDLASS_COMMIT`, `SOURCE_DATE_EPOCH`), only `manifests/image/binary` sets.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = env::var("TARGET").unwrap_or_default();
    let rustc = env::var_os("RUSTC").and_then(|rustc| Command::new(rustc).arg("--version").output().ok());
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let rustc = rustc.unwrap_or_default();
    println!("cargo::rustc-env=WINDLASS_TARGET={target}");
    println!("cargo::rustc-env=WINDLASS_RUSTC={}", rustc.strip_prefix("rustc ").unwrap_or(&rustc));
}
