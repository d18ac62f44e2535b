//! The shape of the source: which files import each other, the order of the controller's folders, and how doc comments open. All numbers
//! may only fall: a change that lowers one lowers it here as well.

use std::collections::{BTreeMap, BTreeSet};

use crate::repository::{self, files, root};

mod imports;

/// Each crate with the number of its files that are in a circle of imports, and of its doc comments that do not open with what
/// the item is or does.
const CRATES: [(&str, usize, usize); 14] = [
    ("ipam", 0, 0),
    ("bgp", 0, 0),
    ("vrrp", 0, 0),
    ("vrrp/kernel", 0, 0),
    ("vrrp/dataplane", 0, 0),
    ("vrrp/engine", 0, 0),
    ("ccm", 0, 0),
    ("ccm/api", 0, 0),
    ("ccm/common", 0, 0),
    ("ccm/node", 0, 0),
    ("ccm/controller", 0, 0),
    ("ccm/cli", 0, 0),
    ("ccm/windlass", 0, 0),
    ("e2e", 0, 0),
];

/// Folders and files of the controller in their order (docs/architecture.md): each imports only those before it.
const CONTROLLER: [&str; 9] = [
    "wakeup",
    "nodes",
    "stores",
    "allocation",
    "placement",
    "state",
    "pool_metrics",
    "status_pages",
    "provider",
];
/// Imports against that order, which the page explains.
const BACKWARD_IMPORTS: usize = 7;

/// Words with which a doc comment opens that says neither what the item is nor what it does.
const OPENERS: [&str; 12] =
    ["What", "Whether", "How", "Who", "Whoever", "Why", "Where", "When", "Those", "That", "Of", "So"];

/// A file without tests, by its path from `src` without the extension: `mod.rs` is its folder's.
type Sources = BTreeMap<Vec<String>, String>;

fn read(krate: &str) -> Sources {
    let folder = root().join(krate).join("src");
    let mut sources = Sources::new();
    for path in files(&folder, "rs") {
        let inner = path.strip_prefix(&folder).unwrap().with_extension("");
        let mut module: Vec<String> = inner.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        if module[0] == "bin" || module.iter().any(|part| part == "tests") {
            continue;
        }
        module.retain(|part| !matches!(part.as_str(), "mod" | "lib" | "main"));
        sources.insert(module, repository::read(&path));
    }
    sources
}

/// The groups of files that import each other, directly or by way of others. What a file imports of a module that it is part of does not
/// count.
fn circles(sources: &Sources) -> Vec<Vec<String>> {
    let files: Vec<&Vec<String>> = sources.keys().collect();
    let imported: Vec<BTreeSet<usize>> = sources
        .iter()
        .map(|(module, text)| {
            let paths = imports::paths(module, text);
            let found = paths.iter().filter_map(|path| file_of(path, sources));
            let foreign = found.filter(|file| !module.starts_with(file));
            foreign.filter_map(|file| files.iter().position(|one| *one == file)).collect()
        })
        .collect();
    let reached: Vec<BTreeSet<usize>> = (0..files.len()).map(|file| reachable(file, &imported)).collect();
    let mut circles: BTreeSet<Vec<usize>> = BTreeSet::new();
    for (file, reached_of_file) in reached.iter().enumerate() {
        if reached_of_file.contains(&file) {
            let mutual = |other: &usize| reached[*other].contains(&file);
            circles.insert(reached_of_file.iter().copied().filter(mutual).collect());
        }
    }
    let named = |circle: Vec<usize>| circle.into_iter().map(|file| files[file].join("/")).collect();
    circles.into_iter().map(named).collect()
}

/// The file that has what a path names: that of its longest beginning that is a module.
fn file_of<'a>(path: &[String], sources: &'a Sources) -> Option<&'a Vec<String>> {
    let beginnings = (0..=path.len()).rev().map(|length| &path[..length]);
    beginnings.filter_map(|beginning| sources.get_key_value(beginning)).map(|(file, _)| file).next()
}

fn reachable(from: usize, imported: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(file) = waiting.pop() {
        waiting.extend(imported[file].iter().filter(|other| reached.insert(**other)));
    }
    reached
}

/// The doc comments that open with one of [`OPENERS`], and how many there are in all.
fn doc_comments(sources: &Sources) -> (Vec<String>, usize) {
    let (mut bad, mut all) = (Vec::new(), 0);
    for (module, text) in sources {
        let mut inside = false;
        for line in text.lines().map(str::trim_start) {
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            if let (false, Some(doc)) = (inside, doc) {
                all += 1;
                let first = doc.trim_start().split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
                if OPENERS.contains(&first) {
                    bad.push(format!("{}:{doc}", module.join("/")));
                }
            }
            inside = doc.is_some();
        }
    }
    (bad, all)
}

#[test]
fn files_that_import_each_other_become_fewer() {
    let mut wrong = Vec::new();
    for (krate, known, _) in CRATES {
        let circles = circles(&read(krate));
        let files: usize = circles.iter().map(Vec::len).sum();
        if files != known {
            let list: Vec<String> = circles.iter().map(|circle| circle.join(" ")).collect();
            wrong.push(format!(
                "{krate}: {files} files in circles, {known} are known:\n  {}",
                list.join("\n  ")
            ));
        }
    }
    assert!(wrong.is_empty(), "mend a new circle, or lower the number in CRATES\n{}", wrong.join("\n"));
}

#[test]
fn imports_against_the_order_of_the_controllers_folders_become_fewer() {
    let place =
        |path: &[String]| CONTROLLER.iter().position(|folder| path.first().is_some_and(|it| it == folder));
    let mut backward = BTreeSet::new();
    for (module, text) in read("ccm/controller") {
        assert!(module.is_empty() || place(&module).is_some(), "add {module:?} to CONTROLLER");
        for path in imports::paths(&module, &text) {
            if place(&module).zip(place(&path)).is_some_and(|(from, to)| from < to) {
                backward.insert(format!("{} imports {}", module.join("/"), path.join("::")));
            }
        }
    }
    let list: Vec<String> = backward.into_iter().collect();
    assert_eq!(
        list.len(),
        BACKWARD_IMPORTS,
        "import only folders that come earlier, or lower BACKWARD_IMPORTS\n{}",
        list.join("\n")
    );
}

#[test]
fn doc_comments_that_do_not_say_what_the_item_is_become_fewer() {
    let mut wrong = Vec::new();
    for (krate, _, known) in CRATES {
        let (bad, all) = doc_comments(&read(krate));
        if bad.len() != known {
            wrong.push(format!("{krate}: {} of {all} doc comments, {known} are known", bad.len()));
        }
    }
    assert!(
        wrong.is_empty(),
        "open a doc comment with a noun phrase or a verb (CONTRIBUTING.md), or lower the number in CRATES\n{}",
        wrong.join("\n")
    );
}

#[test]
fn circles_are_found_whatever_the_way_of_importing() {
    let sources = |files: &[(&str, &str)]| -> Sources {
        let module =
            |path: &str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        files.iter().map(|(path, text)| (module(path), (*text).to_owned())).collect()
    };
    for (there, back) in [
        ("use crate::b::B;", "use crate::a::A;"),
        ("use super::b::{B, c::C};", "use crate::{a::A, other};"),
        ("fn f() -> crate::b::B {}", "pub(crate) use super::a;"),
        ("use crate::{\n    // b's\n    b::{self},\n};", "fn f() { let a = super::a::new(); }"),
    ] {
        let found = circles(&sources(&[("", "mod a; mod b; use a::A;"), ("a", there), ("b", back)]));
        assert_eq!(found, [["a", "b"]], "{there} {back}");
    }
    // A part of a module may use what the module has; a comment imports nothing.
    let house = [
        ("", "mod a; mod b;"),
        ("a", "use self::c::C; use crate::b::B;"),
        ("a/c", "use super::D;"),
        ("b", "// crate::a::A"),
    ];
    assert!(circles(&sources(&house)).is_empty());
    // A way round by a part of the module counts.
    let round = [("a", "use self::c::C;"), ("a/c", "use crate::b::B;"), ("b", "use crate::a::A;")];
    assert_eq!(circles(&sources(&round)), [["a", "a/c", "b"]]);
}
