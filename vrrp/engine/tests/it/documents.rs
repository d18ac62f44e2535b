//! The documents name code that is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What paths in the documents are relative to.
const FOLDERS: [&str; 6] =
    ["", "bgp/src", "vrrp/src", "vrrp/engine/src", "vrrp/dataplane/src", "vrrp/kernel/src"];

/// Rust files of the protocols, of the kernel crate, of the data plane and of the engine, by path from the repository.
struct Sources {
    root: PathBuf,
    files: BTreeMap<PathBuf, String>,
}

impl Sources {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = BTreeMap::new();
        let mut folders = vec![PathBuf::from("bgp"), PathBuf::from("vrrp")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root.join(&folder)).unwrap() {
                let entry = entry.unwrap();
                let path = folder.join(entry.file_name());
                if entry.file_type().unwrap().is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    files.insert(path, fs::read_to_string(entry.path()).unwrap());
                }
            }
        }
        // Names of things that are gone are in this one.
        files.retain(|path, _| !path.ends_with("tests/it/documents.rs"));
        Self { root, files }
    }

    fn has_path(&self, path: &str) -> bool {
        FOLDERS.iter().any(|from| self.root.join(from).join(path).exists())
    }

    /// A name, its modules or types before it; an ellipsis stands for any.
    fn has_name(&self, name: &str) -> bool {
        let segments: Vec<&str> = name.split("::").filter(|segment| *segment != "…").collect();
        self.files.iter().any(|(path, text)| {
            segments.iter().all(|segment| {
                let is_module = path
                    .components()
                    .any(|part| Path::new(part.as_os_str()).file_stem().is_some_and(|stem| stem == *segment));
                is_module || has_word(text, segment)
            })
        })
    }

    /// A name as in [`Self::has_name`], or with arguments; in this file if one is given.
    fn has_in(&self, file: Option<&str>, name: &str) -> bool {
        let name = name.split('(').next().unwrap_or(name);
        let Some(file) = file else { return self.has_name(name) };
        let last = name.rsplit("::").next().unwrap_or(name);
        FOLDERS
            .iter()
            .filter_map(|folder| self.files.get(&Path::new(folder).join(file)))
            .any(|text| has_word(text, last))
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(inside) && !text[at + word.len()..].starts_with(inside))
}

/// What is between single backquotes, outside of fenced blocks.
fn spans(document: &str) -> Vec<&str> {
    let prose = document.split("```").step_by(2);
    prose.flat_map(|prose| prose.split('`').skip(1).step_by(2)).collect()
}

/// Whether it reads as `module::…::name` or `Type::item`.
fn is_qualified(span: &str) -> bool {
    let is_word = |word: &str| {
        word == "…"
            || word.starts_with(char::is_alphabetic) && word.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    span.contains("::") && span.split("::").all(is_word)
}

fn is_source(span: &str) -> bool {
    Path::new(span).extension().is_some_and(|extension| extension == "rs")
}

/// Code that the document names and that is nowhere.
fn missing(sources: &Sources, document: &str) -> Vec<String> {
    let mut missing = Vec::new();
    for span in spans(document) {
        let found = if is_source(span) || span.starts_with("vrrp/") {
            sources.has_path(span)
        } else if is_qualified(span) {
            sources.has_name(span)
        } else {
            true
        };
        if !found {
            missing.push(span.to_owned());
        }
    }
    for cell in code_cells(document) {
        // A file before a semicolon is where the names after it are.
        for part in cell.split(';') {
            let mut file = None;
            for span in spans(part) {
                if is_source(span) {
                    file = Some(span);
                } else if !sources.has_in(file, span) {
                    missing.push(format!("{span} in {}", file.unwrap_or("any file")));
                }
            }
        }
    }
    missing
}

/// The cells of tables' columns "Code".
fn code_cells(document: &str) -> Vec<&str> {
    let mut cells = Vec::new();
    let mut column = None;
    for line in document.lines() {
        let row: Vec<&str> = line.split('|').map(str::trim).collect();
        if row.len() < 2 {
            column = None;
        } else if let Some(code) = row.iter().position(|cell| *cell == "Code") {
            column = Some(code);
        } else {
            cells.extend(column.and_then(|code| row.get(code)));
        }
    }
    cells
}

#[test]
fn the_documents_name_code_that_exists() {
    let sources = Sources::read();
    for name in ["bgp.md", "rfc9568.md", "auth.md", "interop.md", "virtual-mac.md"] {
        let document = fs::read_to_string(sources.root.join("docs/dev").join(name)).unwrap();
        assert_eq!(missing(&sources, &document), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn a_name_that_is_gone_is_noticed() {
    let document = "
        Code: `wire/tests/golden.rs`, `wire/gone.rs`, `Checksum::Rfc5798`, `Checksum::Gone`, `ip -n one`, `fe80::1`
        | Rule | Code | Why |
        | 1 | `wire.rs` `PROTOCOL`, `Gone`; `Priority` | `names here are not code` |
        | 2 | `wire.rs` `skew` | |";
    let gone = ["wire/gone.rs", "Checksum::Gone"];
    let displaced = ["Gone in wire.rs", "skew in wire.rs"];
    assert_eq!(missing(&Sources::read(), document), [&gone[..], &displaced].concat());
}
