//! Writes `manifests/crds/*.yaml` from the Rust types: `cargo run -p windlass-api --example crds`, or `make crds`.

mod render;

use std::fs;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = render::folder();
    if let Err(error) = fs::create_dir_all(&folder) {
        eprintln!("crds: cannot create {}: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    for (name, yaml) in render::files() {
        let path = folder.join(&name);
        if fs::read_to_string(&path).is_ok_and(|old| old == yaml) {
            println!("crds: {name} is up to date");
        } else if let Err(error) = fs::write(&path, yaml) {
            eprintln!("crds: cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        } else {
            println!("crds: {name} written");
        }
    }
    ExitCode::SUCCESS
}
