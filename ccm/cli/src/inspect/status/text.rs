//! The overview for people: one screen. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Overview, PROBLEMS, Severity};
use crate::inspect::problems::Problem;
use crate::inspect::table::{age, aligned, indented, text as table};

/// Maximum number of problems of one kind and reason that are listed one by one, unless all are requested.
const EACH: usize = 3;
/// Maximum number of kinds of problems, likewise.
const GROUPS: usize = 8;
/// Maximum number of nodes and of moves, likewise.
const LINES: usize = 8;

impl Overview {
    /// For people; `wide`: all of it.
    pub(in crate::inspect) fn text(&self, wide: bool, now: Timestamp) -> String {
        let mut text = vec![format!("Windlass at {}\n\n", self.server)];
        text.push(problems_text(&self.problems, wide));
        text.push("\n".to_owned());
        text.push(aligned(&self.facts(now)));
        if !self.pools.is_empty() {
            text.push(format!("\nPools\n{}", indented(&table(&self.pools, wide, now))));
        }
        let loads = self.agents.by_node.iter().map(|load| {
            let (routers, addresses) = (load.active_routers, load.addresses);
            vec![
                load.node.clone(),
                format!("{addresses} addresses"),
                format!("Active in {routers} virtual routers"),
            ]
        });
        text.push(section("Nodes", loads.collect(), wide));
        let moves = self.moves.iter().map(|one| {
            let carried = format!("{} addresses", one.addresses);
            vec![
                format!("{} ago", age(one.time.0, now)),
                one.virtual_router.clone(),
                format!("to {}", one.node),
                carried,
            ]
        });
        text.push(section("Moves of the last hour", moves.collect(), wide));
        text.concat()
    }

    /// A line for each kind of thing.
    fn facts(&self, now: Timestamp) -> Vec<Vec<String>> {
        let mut lines = Vec::new();
        let mut line = |name: &str, words: String| lines.push(vec![name.to_owned(), words]);
        line("Controller", self.controller_text(now));
        line("Agents", self.agents_text());
        let services = &self.services;
        let waiting: Vec<String> =
            services.waiting.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let waiting = if waiting.is_empty() { "none waits".to_owned() } else { waiting.join(", ") };
        line(
            "Services",
            format!("{} of type LoadBalancer: {} served, {waiting}", services.total, services.served),
        );
        let addresses = &self.addresses;
        let quarantined = match addresses.quarantined {
            0 => String::new(),
            count => format!(", {count} in quarantine"),
        };
        line("Addresses", format!("{}: {} announced{quarantined}", addresses.total, addresses.announced));
        let routers = &self.routers;
        line("Routers", format!("{}: {} have an Active node", routers.total, routers.active));
        if self.is_incomplete {
            let words = format!(
                "part of the cluster could not be read: counts are too low (exit code {})",
                super::super::INCOMPLETE
            );
            line("Incomplete", words);
        } else if self.has_error() {
            line("Errors", format!("exit code {PROBLEMS}"));
        }
        lines
    }

    fn controller_text(&self, now: Timestamp) -> String {
        let Some(controller) = &self.controller else { return "none is known to work".to_owned() };
        let since = controller
            .since
            .as_ref()
            .map_or_else(String::new, |since| format!(" since {}", age(since.0, now)));
        let verb = if controller.works { "leads" } else { "led last" };
        let pods = match controller.pods {
            0 => String::new(),
            pods => format!(", {} of {pods} pods ready", controller.pods_ready),
        };
        format!("{} {verb}{since} ({}){pods}", controller.leader, controller.lease)
    }

    fn agents_text(&self) -> String {
        let agents = &self.agents;
        let versions: Vec<String> =
            agents.versions.iter().map(|(version, count)| format!("{version} on {count}")).collect();
        let versions =
            if versions.is_empty() { String::new() } else { format!(", version {}", versions.join(", ")) };
        let pods = match agents.pods {
            0 => String::new(),
            pods => format!(", {} of {pods} pods ready", agents.pods_ready),
        };
        let failing = match agents.failing {
            0 => String::new(),
            count => format!(", something fails on {count}"),
        };
        format!("{} of {} nodes have reported{versions}{pods}{failing}", agents.reported, agents.nodes)
    }
}

/// Problems in their order, with what helps; of many of one kind the first few, unless all are wanted.
pub(in crate::inspect) fn problems_text(problems: &[Problem], wide: bool) -> String {
    let count = |severity| problems.iter().filter(|one| one.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    if problems.is_empty() {
        return "Nothing is wrong.\n".to_owned();
    }
    let mut text = vec![format!("{errors} errors, {warnings} warnings\n")];
    // In their order, those of one kind and reason together.
    let mut places: BTreeMap<(Severity, &str, &str), usize> = BTreeMap::new();
    let mut groups: Vec<Vec<&Problem>> = Vec::new();
    for problem in problems {
        let place = *places.entry((problem.severity, problem.kind, &problem.reason)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[place].push(problem);
    }
    let (most_groups, most_each) = if wide { (usize::MAX, usize::MAX) } else { (GROUPS, EACH) };
    for group in groups.iter().take(most_groups) {
        for problem in group.iter().take(most_each) {
            text.push(format!("  {problem}\n    do: {}\n", problem.remedy));
        }
        let more = group.len().saturating_sub(most_each);
        if more > 0 {
            let (kind, reason) = (group[0].kind, &group[0].reason);
            text.push(format!("    and {more} more {kind}s with {reason}: -o wide names them\n"));
        }
    }
    let more = groups.len().saturating_sub(most_groups);
    if more > 0 {
        text.push(format!("  and {more} more kinds of problems: -o wide has all\n"));
    }
    text.concat()
}

/// Lines under a heading; of many the first few, unless all are wanted.
fn section(heading: &str, mut lines: Vec<Vec<String>>, wide: bool) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let more = if wide { 0 } else { lines.len().saturating_sub(LINES) };
    lines.truncate(lines.len() - more);
    if more > 0 {
        lines.push(vec![format!("and {more} more")]);
    }
    format!("\n{heading}\n{}", indented(&aligned(&lines)))
}
