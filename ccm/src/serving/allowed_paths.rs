//! Paths that anybody may read (`--authorization-always-allow-paths`).

use std::str::FromStr;

/// Paths that are answered without authentication: exact ones, and everything below those that end in `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedPaths(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Exact(String),
    Prefix(String),
}

impl Default for AllowedPaths {
    /// `/healthz`, `/readyz`, `/livez`.
    fn default() -> Self {
        Self(["/healthz", "/readyz", "/livez"].map(|path| Pattern::Exact(path.to_owned())).to_vec())
    }
}

impl FromStr for AllowedPaths {
    type Err = String;

    /// A comma-separated list; an empty one allows nothing.
    fn from_str(list: &str) -> Result<Self, String> {
        let paths = list.split(',').map(str::trim).filter(|path| !path.is_empty());
        paths.map(pattern).collect::<Result<_, _>>().map(Self)
    }
}

fn pattern(path: &str) -> Result<Pattern, String> {
    let absolute = format!("/{}", path.trim_start_matches('/'));
    match absolute.strip_suffix('*') {
        _ if absolute.trim_end_matches('*').contains('*') || absolute.ends_with("**") => {
            Err(format!("path {path:?} has a * that is not its end; write one * at the end, or none"))
        }
        Some(prefix) => Ok(Pattern::Prefix(prefix.to_owned())),
        None => Ok(Pattern::Exact(absolute)),
    }
}

impl AllowedPaths {
    pub(crate) fn allow(&self, path: &str) -> bool {
        self.0.iter().any(|pattern| match pattern {
            Pattern::Exact(exact) => path == exact,
            Pattern::Prefix(prefix) => path.starts_with(prefix),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_allowed_exactly_or_by_what_they_begin_with() {
        let paths: AllowedPaths = "/healthz, metrics/*,".parse().unwrap();
        let table = [
            ("/healthz", true),
            ("/healthz/ping", false),
            ("/healthzz", false),
            ("/metrics", false),
            ("/metrics/slis", true),
            ("/", false),
            ("", false),
        ];
        for (path, expected) in table {
            assert_eq!(paths.allow(path), expected, "{path}");
        }
        assert!("*".parse::<AllowedPaths>().unwrap().allow("/metrics"));
        assert!(!"".parse::<AllowedPaths>().unwrap().allow("/healthz"));
        assert!(AllowedPaths::default().allow("/livez") && !AllowedPaths::default().allow("/metrics"));
        for bad in ["/a*b", "/a**", "/*/b"] {
            assert!(bad.parse::<AllowedPaths>().unwrap_err().contains(bad), "{bad}");
        }
    }
}
