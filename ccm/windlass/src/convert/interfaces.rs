//! Names of interfaces, and regular expressions of them as the patterns of an `Announcement`.

/// Why a regular expression is no pattern of an `Announcement`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the regular expression {0:?} has no like in an Announcement, which knows * for any characters; write the names of the \
     interfaces, or patterns of them, into spec.interfaces of an Announcement"
)]
pub(super) struct NoPattern(String);

/// Name of a Linux network interface, or a pattern of names.
pub(super) fn is_interface(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && !name.contains(|c: char| c.is_whitespace() || c == '/')
        && name != "."
        && name != ".."
}

/// The patterns that take what a regular expression takes, and whether they take more than that: digits become `*`. An expression
/// without `^` and `$` is found anywhere in a name, as Go's `regexp.MatchString` finds it.
pub(super) fn patterns(expression: &str) -> Result<(Vec<String>, bool), NoPattern> {
    let no_pattern = || NoPattern(expression.to_owned());
    let (mut patterns, mut is_wider) = (Vec::new(), false);
    for alternative in expression.split('|') {
        let (pattern, wider) = one(alternative).ok_or_else(no_pattern)?;
        if !is_interface(&pattern) {
            return Err(no_pattern());
        }
        is_wider |= wider;
        patterns.push(pattern);
    }
    Ok((patterns, is_wider))
}

/// Of one alternative.
fn one(expression: &str) -> Option<(String, bool)> {
    /// What becomes `*`, and whether that takes more.
    const ANY: [(&str, bool); 7] = [
        (".*", false),
        (r"\d+", true),
        (r"\d*", true),
        ("[0-9]+", true),
        ("[0-9]*", true),
        (r"\d", true),
        ("[0-9]", true),
    ];
    let (begins, rest) = expression.strip_prefix('^').map_or((false, expression), |rest| (true, rest));
    let (ends, mut rest) = match rest.strip_suffix('$') {
        Some(rest) if !rest.ends_with('\\') => (true, rest),
        Some(_) | None => (false, rest),
    };
    let mut pattern = String::from(if begins { "" } else { "*" });
    let mut is_wider = false;
    while let Some(first) = rest.chars().next() {
        if let Some((any, wider)) = ANY.iter().find(|(any, _)| rest.starts_with(any)) {
            pattern.push('*');
            is_wider |= wider;
            rest = &rest[any.len()..];
            continue;
        }
        let literal = match first {
            '\\' => rest[1..].chars().next().filter(|c| matches!(c, '.' | '-' | '_'))?,
            c if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '@' | ':') => c,
            _ => return None,
        };
        rest = &rest[if first == '\\' { 2 } else { 1 }..];
        // A literal that is repeated or optional is none.
        if rest.starts_with(['*', '+', '?', '{']) {
            return None;
        }
        pattern.push(literal);
    }
    if !ends {
        pattern.push('*');
    }
    while pattern.contains("**") {
        pattern = pattern.replace("**", "*");
    }
    Some((pattern, is_wider))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_become_the_patterns_that_take_what_they_take_or_are_refused() {
        let rows: [(&str, &[&str], bool); 9] = [
            ("^eth0$", &["eth0"], false),
            ("^eth[0-9]+", &["eth*"], true),
            (r"^enp\d+s0$", &["enp*s0"], true),
            ("eth0", &["*eth0*"], false),
            ("^eth0$|^bond.*", &["eth0", "bond*"], false),
            (".*", &["*"], false),
            ("", &["*"], false),
            (r"^eth0\.100$", &["eth0.100"], false),
            ("^br-lan$", &["br-lan"], false),
        ];
        for (expression, expected, wider) in rows {
            let expected: Vec<String> = expected.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(patterns(expression), Ok((expected, wider)), "{expression}");
        }
        for expression in
            ["^(eth|bond)[0-9]$", "^eth.$", "eth?", "ens[12]", "^a{2}$", "é", r"\", "a b", "^$", "^$|^eth0$"]
        {
            assert!(patterns(expression).is_err(), "{expression}");
        }
    }
}
