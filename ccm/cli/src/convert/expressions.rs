//! Regular expressions of interfaces, as Cilium and PureLB have them, as the patterns of an `Announcement`, which know only `*`.

/// Begins and ends a name, as `^` and `$` do.
const BEGIN: char = '\u{2}';
const END: char = '\u{3}';
/// Characters of a class that become alternatives of their own; more become `*`.
const MAX_CLASS: usize = 4;

/// Patterns, and whether they take other names, too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Patterns {
    pub(super) patterns: Vec<String>,
    pub(super) is_wider: bool,
}

/// Every name that a part of an expression takes, with `*` for any characters.
#[derive(Clone)]
struct Names {
    names: Vec<String>,
    is_wider: bool,
}

impl Names {
    fn one(name: impl Into<String>) -> Self {
        Self { names: vec![name.into()], is_wider: false }
    }

    const fn any(is_wider: bool) -> Self {
        Self { names: Vec::new(), is_wider }
    }

    /// `*` where it has no names of its own.
    fn names(self) -> Vec<String> {
        if self.names.is_empty() { vec!["*".to_owned()] } else { self.names }
    }

    /// Each of these names before each of those; `None` if they are more than an Announcement takes.
    fn before(self, other: Self, most: usize) -> Option<Self> {
        let is_wider = self.is_wider || other.is_wider;
        let (first, second) = (self.names(), other.names());
        (first.len() * second.len() <= most).then(|| Self {
            names: first
                .iter()
                .flat_map(|one| second.iter().map(move |other| format!("{one}{other}")))
                .collect(),
            is_wider,
        })
    }
}

/// The patterns that take what a regular expression takes. One without `^` and `$` is found anywhere in a name, as Go's
/// `regexp.MatchString` finds it. `None` if there are none, or more than `most`.
pub(super) fn patterns(expression: &str, most: usize) -> Option<Patterns> {
    let mut rest = expression;
    let Names { names, is_wider } = alternatives(&mut rest, most, 0)?;
    if !rest.is_empty() {
        return None;
    }
    let mut patterns = Vec::new();
    for name in names {
        let (begins, name) = name.strip_prefix(BEGIN).map_or((false, name.as_str()), |name| (true, name));
        let (ends, name) = name.strip_suffix(END).map_or((false, name), |name| (true, name));
        if name.contains([BEGIN, END]) {
            return None;
        }
        let mut pattern = format!("{}{name}{}", if begins { "" } else { "*" }, if ends { "" } else { "*" });
        while pattern.contains("**") {
            pattern = pattern.replace("**", "*");
        }
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    Some(Patterns { patterns, is_wider })
}

/// Alternatives up to a closing bracket or the end.
fn alternatives(rest: &mut &str, most: usize, depth: usize) -> Option<Names> {
    if depth > 8 {
        return None;
    }
    let mut all = Names { names: Vec::new(), is_wider: false };
    loop {
        let mut sequence = Names::one("");
        while !(rest.is_empty() || rest.starts_with(['|', ')'])) {
            let part = part(rest, most, depth)?;
            let part = repeated(rest, part)?;
            sequence = sequence.before(part, most)?;
        }
        all.is_wider |= sequence.is_wider;
        all.names.append(&mut sequence.names);
        if all.names.len() > most {
            return None;
        }
        match rest.strip_prefix('|') {
            Some(next) => *rest = next,
            None => return Some(all),
        }
    }
}

/// One character, class or group.
fn part(rest: &mut &str, most: usize, depth: usize) -> Option<Names> {
    let first = rest.chars().next()?;
    *rest = &rest[first.len_utf8()..];
    match first {
        '^' => Some(Names::one(BEGIN)),
        '$' => Some(Names::one(END)),
        // A dot between a name and digits is that of a VLAN, though it takes any character; others take any.
        '.' if rest.starts_with(|c: char| c.is_ascii_digit()) => {
            Some(Names { names: vec![".".to_owned()], is_wider: true })
        }
        '.' => Some(Names::any(!rest.starts_with('*'))),
        '(' => {
            *rest = rest.strip_prefix("?:").unwrap_or(rest);
            let group = alternatives(rest, most, depth + 1)?;
            *rest = rest.strip_prefix(')')?;
            Some(group)
        }
        '[' => {
            let (class, after) = rest.split_once(']')?;
            *rest = after;
            Some(members(class))
        }
        '\\' => {
            let escaped = rest.chars().next()?;
            *rest = &rest[escaped.len_utf8()..];
            match escaped {
                'd' | 'w' => Some(Names::any(true)),
                '.' | '-' | '_' | '@' | ':' => Some(Names::one(escaped)),
                _ => None,
            }
        }
        c if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '@' | ':') => Some(Names::one(c)),
        _ => None,
    }
}

/// The characters of a class, as `01` or `0-3`; any, if they are many.
fn members(class: &str) -> Names {
    let mut members: Vec<char> = Vec::new();
    let characters: Vec<char> = class.chars().collect();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '@');
    let mut index = 0;
    while let Some(first) = characters.get(index).copied().filter(|c| is_plain(*c)) {
        match (characters.get(index + 1), characters.get(index + 2)) {
            (Some('-'), Some(last)) if is_plain(*last) => {
                members.extend((first..=*last).take(MAX_CLASS + 1));
                index += 3;
            }
            (_, _) => {
                members.push(first);
                index += 1;
            }
        }
    }
    if index < characters.len() || members.is_empty() || members.len() > MAX_CLASS {
        return Names::any(true);
    }
    Names { names: members.into_iter().map(String::from).collect(), is_wider: false }
}

/// Returns the part, repeated by the operator that follows it.
fn repeated(rest: &mut &str, part: Names) -> Option<Names> {
    let is_any = part.names.is_empty();
    let (after, optional) = match rest.chars().next() {
        Some('*' | '+') => (&rest[1..], false),
        Some('?') => (&rest[1..], true),
        Some('{') => (rest.split_once('}')?.1, false),
        Some(_) | None => return Some(part),
    };
    // An anchor has no number.
    if part.names.iter().any(|name| name.contains([BEGIN, END])) {
        return None;
    }
    let is_needed = rest.starts_with('+') || rest.starts_with('{') && !rest.starts_with("{0");
    let repeats_any_at_will = is_any && rest.starts_with('*') && !part.is_wider;
    // (A lazy one takes the same names.)
    *rest = after.strip_prefix('?').unwrap_or(after);
    match part {
        Names { mut names, is_wider } if optional && !is_any => {
            names.push(String::new());
            Some(Names { names, is_wider })
        }
        Names { names, .. } if is_needed && !is_any => {
            Some(Names { names: names.into_iter().map(|name| name + "*").collect(), is_wider: true })
        }
        Names { .. } => Some(Names::any(!repeats_any_at_will)),
    }
}

/// Name of a Linux network interface, or a pattern of names.
pub(super) fn is_interface(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && !name.contains(|c: char| c.is_whitespace() || c == '/')
        && name != "."
        && name != ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_become_the_patterns_that_take_what_they_take_or_none() {
        let rows: [(&str, &[&str], bool); 22] = [
            ("^eth0$", &["eth0"], false),
            ("^eth[0-9]+", &["eth*"], true),
            (r"^enp\d+s0$", &["enp*s0"], true),
            ("eth0", &["*eth0*"], false),
            ("^eth0$|^bond.*", &["eth0", "bond*"], false),
            (".*", &["*"], false),
            ("", &["*"], false),
            (r"^eth0\.100$", &["eth0.100"], false),
            ("^br-lan$", &["br-lan"], false),
            ("bond0.678", &["*bond0.678*"], true),
            ("^eth[01]$", &["eth0", "eth1"], false),
            ("^eth[1-3]$", &["eth1", "eth2", "eth3"], false),
            ("^(eno|ens)1$", &["eno1", "ens1"], false),
            ("^(?:eth|bond)[0-9]$", &["eth*", "bond*"], true),
            ("^eth.+$", &["eth*"], true),
            (r"^ens\d{1,4}$", &["ens*"], true),
            ("^eth.$", &["eth*"], true),
            ("^eth0?$", &["eth0", "eth"], false),
            ("(^eth0$|^eth1$)", &["eth0", "eth1"], false),
            ("^eth[^0]$", &["eth*"], true),
            ("^a{2}$", &["a*"], true),
            (r"^en.*\.100$", &["en*.100"], false),
        ];
        for (expression, expected, is_wider) in rows {
            let patterns = patterns(expression, 32);
            let expected: Vec<String> = expected.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(patterns, Some(Patterns { patterns: expected, is_wider }), "{expression}");
        }
        for expression in [
            "é",
            r"\",
            "a b",
            "eth$0",
            "(eth0",
            "eth0)",
            "[0",
            r"\pL",
            "^*",
            "^(a|b|c)(a|b|c)(a|b|c)(a|b|c)$",
        ] {
            assert_eq!(patterns(expression, 32), None, "{expression}");
        }
    }
}
