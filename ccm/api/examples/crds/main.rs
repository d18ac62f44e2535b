//! Writes `manifests/crds/*.yaml` from the Rust types: `cargo run -p windlass-api --example crds`, or `make crds`. With `--check` it writes
//! nothing and fails where a file is stale.

mod render;

use std::fs;
use std::process::ExitCode;

fn main() -> ExitCode {
    let check = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => {
            eprintln!("crds: '{other}' is no option: give --check or nothing");
            return ExitCode::from(2);
        }
    };
    let folder = render::folder();
    if let Err(error) = fs::create_dir_all(&folder) {
        eprintln!("crds: cannot create {}: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    let mut fresh = true;
    for (name, yaml) in render::files() {
        let path = folder.join(&name);
        if fs::read_to_string(&path).is_ok_and(|old| old == yaml) {
            if !check {
                println!("crds: {name} is up to date");
            }
        } else if check {
            eprintln!("crds: manifests/crds/{name} is stale: run 'make crds' and commit it");
            fresh = false;
        } else if let Err(error) = fs::write(&path, yaml) {
            eprintln!("crds: cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        } else {
            println!("crds: {name} written");
        }
    }
    if fresh { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
