//! Writes `docs/evidence/*.md` from the marks of the tests, and the pages of [`tables`] from the code: `make evidence`. Fails if a mark or a
//! page of `docs/dev` is wrong.

mod render;
#[path = "../../tests/it/repository.rs"]
mod repository;
#[path = "tables.rs"]
mod tables;

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
    let (docs, folder) = (repository::root().join("docs"), render::folder());
    let written = write_folder(&folder, &evidence.files());
    let written =
        written.and_then(|()| tables::pages().iter().try_for_each(|page| write(&docs, page.0, &page.1)));
    if let Err(error) = written {
        eprintln!("evidence: cannot write below {}: {error}", docs.display());
        return ExitCode::FAILURE;
    }
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Makes the folder hold these files and no other.
fn write_folder(folder: &Path, files: &[(String, String)]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !files.iter().any(|(name, _)| entry.file_name() == **name) {
            fs::remove_file(entry.path())?;
            println!("evidence: {} removed", entry.file_name().display());
        }
    }
    files.iter().try_for_each(|(name, text)| write(folder, name, text))
}

/// Writes a file that differs.
fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = folder.join(name);
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        println!("evidence: {name} is up to date");
        return Ok(());
    }
    println!("evidence: {name} written");
    fs::write(&path, text)
}
