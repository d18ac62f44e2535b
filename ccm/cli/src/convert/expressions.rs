//! Regular expressions of interfaces, as Cilium and PureLB have them, as the patterns of an `Announcement`, which know only `*`.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Dot, Hir, HirKind, Look, Repetition};

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
struct Names {
    names: Vec<String>,
    is_wider: bool,
}

impl Names {
    fn one(name: impl Into<String>) -> Self {
        Self { names: vec![name.into()], is_wider: false }
    }

    /// Any characters.
    fn any(is_wider: bool) -> Self {
        Self { is_wider, ..Self::one("*") }
    }

    fn is_any(&self) -> bool {
        self.names == ["*"]
    }

    /// Each of these names before each of those.
    fn before(self, other: &Self) -> Self {
        let all =
            self.names.iter().flat_map(|one| other.names.iter().map(move |other| format!("{one}{other}")));
        Self { names: all.collect(), is_wider: self.is_wider || other.is_wider }
    }
}

/// The patterns that take what a regular expression takes. One without `^` and `$` is found anywhere in a name, as Go's
/// `regexp.MatchString` finds it. `None` if there are none, or more than `most`.
pub(super) fn patterns(expression: &str, most: usize) -> Option<Patterns> {
    let hir = ParserBuilder::new().unicode(false).utf8(false).build().parse(expression).ok()?;
    let Names { names, is_wider } = names(&hir, most)?;
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

fn names(part: &Hir, most: usize) -> Option<Names> {
    Some(match part.kind() {
        HirKind::Empty => Names::one(""),
        HirKind::Literal(literal) => {
            Names::one(literal.0.iter().map(|byte| plain(*byte)).collect::<Option<String>>()?)
        }
        HirKind::Class(class) => members(class),
        HirKind::Look(Look::Start) => Names::one(BEGIN),
        HirKind::Look(Look::End) => Names::one(END),
        HirKind::Look(_) => return None,
        HirKind::Repetition(repetition) => repeated(repetition, names(&repetition.sub, most)?)?,
        HirKind::Capture(capture) => names(&capture.sub, most)?,
        HirKind::Concat(parts) => {
            let mut all = Names::one("");
            for (index, part) in parts.iter().enumerate() {
                let is_dot = is_dot(part) && parts.get(index + 1).is_some_and(begins_with_digit);
                // A dot between a name and digits is that of a VLAN, though it takes any character; others take any.
                let part =
                    if is_dot { Names { is_wider: true, ..Names::one(".") } } else { names(part, most)? };
                all = Some(all.before(&part)).filter(|all| all.names.len() <= most)?;
            }
            all
        }
        HirKind::Alternation(parts) => {
            let mut all = Names { names: Vec::new(), is_wider: false };
            for part in parts {
                let part = names(part, most)?;
                all.is_wider |= part.is_wider;
                all.names.extend(part.names);
            }
            Some(all).filter(|all| all.names.len() <= most)?
        }
    })
}

fn is_dot(part: &Hir) -> bool {
    *part == Hir::dot(Dot::AnyByteExceptLF)
}

fn begins_with_digit(part: &Hir) -> bool {
    matches!(part.kind(), HirKind::Literal(literal) if literal.0.first().is_some_and(u8::is_ascii_digit))
}

/// A character that the name of an interface has; `None`: it is another one.
fn plain(byte: u8) -> Option<char> {
    let is_plain = byte.is_ascii_alphanumeric() || b"-_.@:".contains(&byte);
    is_plain.then_some(char::from(byte))
}

/// The characters of a class; any, if they are many.
fn members(class: &Class) -> Names {
    let class = match class {
        Class::Bytes(class) => Some(class.clone()),
        Class::Unicode(class) => class.to_byte_class(),
    };
    let Some(class) = class else { return Names::any(true) };
    let bytes = class.ranges().iter().flat_map(|range| range.start()..=range.end());
    let members: Option<Vec<String>> =
        bytes.take(MAX_CLASS + 1).map(|byte| plain(byte).map(String::from)).collect();
    match members {
        Some(names) if (1..=MAX_CLASS).contains(&names.len()) => Names { names, is_wider: false },
        Some(_) | None => Names::any(true),
    }
}

/// The names of a part, repeated. (A lazy repetition takes the same names.)
fn repeated(repetition: &Repetition, mut part: Names) -> Option<Names> {
    // An anchor has no number.
    if part.names.iter().any(|name| name.contains([BEGIN, END])) {
        return None;
    }
    let Repetition { min, max, sub, .. } = repetition;
    Some(match (min, max) {
        (0, None) if is_dot(sub) => Names::any(false),
        (_, _) if part.is_any() => Names::any(part.is_wider || *min > 0),
        (0, Some(1)) => {
            part.names.push(String::new());
            part
        }
        (0, _) => Names::any(true),
        (_, _) => Names { names: part.names.into_iter().map(|name| name + "*").collect(), is_wider: true },
    })
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
        let rows: [(&str, &[&str], bool); 24] = [
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
            ("e(?P<x>n)h0", &["*enh0*"], false),
            ("^(?i)e0$", &["E0", "e0"], false),
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
