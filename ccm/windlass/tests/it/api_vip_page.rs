//! The commands and the file of `docs/api-vip.md`, run.

use std::fs;

use crate::repository;
use crate::support::{Folder, output};

fn page() -> String {
    repository::read("docs/api-vip.md")
}

/// The fenced blocks of this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fenced = page.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.strip_prefix(&format!("{language}\n"))).map(str::to_owned).collect()
}

/// The arguments of the page's commands of this kind, and the file to which each writes.
fn commands(beginning: &str) -> Vec<(Vec<String>, Option<String>)> {
    let lines: Vec<String> = blocks(&page(), "sh")
        .iter()
        .flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let of_kind = lines
        .iter()
        .filter_map(|line| line.strip_prefix("windlass "))
        .filter(|line| line.starts_with(beginning));
    let split = |line: &str| {
        let (command, file) =
            line.split_once(" > ").map_or((line, None), |(command, file)| (command, Some(file)));
        (command.split(' ').map(str::to_owned).collect(), file.map(str::to_owned))
    };
    of_kind.map(split).collect()
}

fn printed(args: &[String]) -> String {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = output(&args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn each_manifest_of_the_page_is_printed_and_says_to_go_where_the_page_puts_it() {
    let manifests = commands("vip manifest");
    assert_eq!(manifests.len(), 4, "kubeadm, k3s, RKE2, systemd");
    for (args, file) in manifests {
        let text = printed(&args);
        let file = file.expect("a file");
        assert!(text.contains(&file), "{args:?} goes to {file}: {text}");
        if !file.ends_with(".service") {
            let pod: k8s_openapi::api::core::v1::Pod = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(pod.spec.unwrap().host_network, Some(true));
        }
    }
}

/// A unit is printed only for settings that are in order.
#[test]
fn the_flags_and_the_file_of_the_page_are_accepted() {
    let runs = commands("vip --address");
    assert_eq!(runs.len(), 3, "the first, the one that balances and the one that speaks BGP");
    for (args, _) in runs {
        let unit = ["vip", "manifest", "--for", "systemd"].map(str::to_owned);
        printed(&[unit.as_slice(), &args[1..]].concat());
    }
    let folder = Folder::new();
    let files = [page(), repository::read("docs/bgp.md")].map(|page| blocks(&page, "yaml")).concat();
    assert_eq!(files.len(), 2);
    for text in files {
        let file = folder.path().join("vip.yaml");
        fs::write(&file, text).unwrap();
        let unit = ["vip", "manifest", "--for", "systemd", "--config"].map(str::to_owned);
        printed(&[unit.as_slice(), &[file.display().to_string()]].concat());
    }
}

/// The first column and the second of the table of settings.
#[test]
fn every_flag_is_on_the_page() {
    let help = String::from_utf8(output(&["vip", "--help"]).stdout).unwrap();
    let words = help.split_whitespace().filter(|word| word.starts_with("--"));
    let page = page();
    for flag in words {
        let common = ["--log-format", "--log-level", "--help", "--version"].contains(&flag);
        assert!(common || page.contains(flag), "{flag} is not in docs/api-vip.md");
    }
}
