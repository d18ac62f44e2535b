//! Writes `docs/evidence/*.md` from the marks of the tests: `cargo run -p windlass --example evidence`, or `make evidence`. Fails if a mark
//! or a page of `docs/dev` is wrong.

mod render;
#[path = "../../tests/it/repository.rs"]
mod repository;

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let evidence = render::Evidence::read();
    let faults = evidence.faults();
    for fault in &faults {
        eprintln!("evidence: {fault}");
    }
    let folder = render::folder();
    if let Err(error) = write(&folder, &evidence.files()) {
        eprintln!("evidence: cannot write {}: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Makes the folder hold these files and no other.
fn write(folder: &Path, files: &[(String, String)]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !files.iter().any(|(name, _)| entry.file_name() == **name) {
            fs::remove_file(entry.path())?;
            println!("evidence: {} removed", entry.file_name().display());
        }
    }
    for (name, text) in files {
        let path = folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == *text) {
            println!("evidence: {name} is up to date");
        } else {
            fs::write(&path, text)?;
            println!("evidence: {name} written");
        }
    }
    Ok(())
}
