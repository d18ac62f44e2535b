//! The paths that a file of Rust names.

/// All paths that begin with `crate`, `super` or `self`, and those of `use` that begin with a module of this one, each from the root of
/// the crate.
pub(super) fn paths(module: &[String], text: &str) -> Vec<Vec<String>> {
    let code = without_comments(text);
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("::") {
        let before = &code[..at];
        let word = last_word(before);
        let begins = before.len() - word.len();
        // Not the middle of a path.
        if code[..begins].ends_with("::") {
            continue;
        }
        let from = match word {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => above(module),
            _ if code[..begins].trim_end().ends_with("use") => [module, &[word.to_owned()]].concat(),
            _ => continue,
        };
        follow(&code[at + 2..], &from, &mut paths);
    }
    paths
}

fn above(module: &[String]) -> Vec<String> {
    module.split_last().map(|(_, above)| above.to_vec()).unwrap_or_default()
}

/// Follows a path behind its `::`, through braces, and returns what comes after it.
fn follow<'a>(rest: &'a str, from: &[String], paths: &mut Vec<Vec<String>>) -> &'a str {
    let rest = rest.trim_start();
    if let Some(mut inner) = rest.strip_prefix('{') {
        loop {
            inner = inner.trim_start().trim_start_matches(',').trim_start();
            if let Some(after) = inner.strip_prefix('}') {
                return after;
            }
            if inner.is_empty() {
                return inner;
            }
            let before = inner.len();
            inner = follow(inner, from, paths);
            if inner.len() == before {
                // No path of ours: not an import.
                return inner;
            }
        }
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*').unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    let path = match word {
        "self" | "*" => from.to_vec(),
        "super" => above(from),
        _ => [from, &[word.to_owned()]].concat(),
    };
    if let Some(after) = after.strip_prefix("::") {
        return follow(after, &path, paths);
    }
    paths.push(path);
    // `Name as Other`
    after.trim_start().strip_prefix("as ").map_or(after, |renamed| {
        let end = renamed.find([',', '}', ';']).unwrap_or(renamed.len());
        &renamed[end..]
    })
}

fn last_word(text: &str) -> &str {
    let begin = text
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    &text[begin..]
}

fn without_comments(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}
