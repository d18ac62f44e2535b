//! `vrrp_instance`s as settings of `windlass vip`, for addresses of a host's own programs, such as the API server's.

use serde_json::{Value, json};

use super::super::write::Writer;
use super::Configuration;
use super::instances::{held, interface, scripts};
use super::syntax::Entry;

/// Priorities that `windlass vip` takes.
const PRIORITY: std::ops::RangeInclusive<u64> = 101..=200;

/// Prints the settings of all instances, for these ports.
pub(super) fn convert(configurations: &[Configuration], ports: &[u16], writer: &mut Writer) {
    let mut vips = Vec::new();
    for configuration in configurations {
        let instances = configuration.entries.iter().filter(|entry| entry.keyword() == "vrrp_instance");
        for instance in instances {
            vips.extend(settings(configuration, instance, ports, writer));
        }
    }
    if vips.is_empty() {
        return;
    }
    let count = vips.len();
    match serde_saphyr::to_string(&json!({ "vips": vips })) {
        Ok(text) => match crate::vip::check_settings(&text) {
            Ok(()) => {
                writer.conversion.yaml = text;
                writer.conversion.pools = count;
            }
            Err(error) => writer.refuse("the settings", &format!("windlass vip would refuse them: {error}")),
        },
        Err(error) => writer.refuse("the settings", &format!("they cannot be written as YAML: {error}")),
    }
}

/// One for each address of an instance.
fn settings(
    configuration: &Configuration,
    instance: &Entry,
    ports: &[u16],
    writer: &mut Writer,
) -> Vec<Value> {
    let origin = format!(
        "{}: vrrp_instance {:?}",
        configuration.place(instance.line),
        instance.value().unwrap_or_default()
    );
    let mut vip = serde_json::Map::new();
    vip.insert("ports".to_owned(), json!(ports));
    let priority = instance.last("priority");
    match priority.map(str::parse::<u64>) {
        Some(Ok(priority)) if PRIORITY.contains(&priority) => {
            vip.insert("priority".to_owned(), json!(priority));
        }
        Some(_) => writer.warn(
            &origin,
            "its priority is not 101 to 200, which fit nodes have with windlass vip: it has none, so that whoever has the address \
             keeps it. Give the nodes priorities in the order that you want",
        ),
        None => {}
    }
    // keepalived's default is that who has the higher priority takes over.
    if vip.contains_key("priority") && instance.all("nopreempt").next().is_none() {
        vip.insert("preempt".to_owned(), json!(true));
    }
    // In seconds.
    let seconds = instance.last("advert_int").and_then(|seconds| seconds.parse::<f64>().ok());
    if let Some(seconds) = seconds.filter(|seconds| (0.01..=40.95).contains(seconds)) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within the bounds above"
        )]
        let centiseconds = (seconds * 100.0).round() as u32;
        vip.insert("advertIntervalMs".to_owned(), json!(centiseconds * 10));
    }
    let peers = instance.all("unicast_peer").flat_map(|block| &block.block).map(Entry::keyword);
    let peers: Vec<&str> = peers.filter(|peer| !peer.starts_with(['@', '$'])).collect();
    let checks: Vec<Value> = scripts(&configuration.entries, instance)
        .filter_map(|script| check(script, &configuration.place(script.line), writer))
        .collect();
    if !checks.is_empty() {
        vip.insert("checks".to_owned(), json!(checks));
    }
    if instance.all("authentication").next().is_some() {
        writer.warn(
            &origin,
            "authentication of VRRP 2 is none of version 3; keysDir signs adverts (docs/api-vip.md)",
        );
    }
    let held = held(configuration, instance, writer);
    if held.is_empty() {
        writer.refuse(&origin, "it has no address; add one");
    }
    let of_address = |held: &super::instances::Held<'_>| {
        let mut vip = vip.clone();
        vip.insert("address".to_owned(), json!(held.address));
        if let Some(interface) = held.interface.or_else(|| interface(instance)) {
            vip.insert("interface".to_owned(), json!(interface));
        }
        // Of its family alone.
        let peers: Vec<&&str> =
            peers.iter().filter(|peer| peer.contains(':') == held.address.is_ipv6()).collect();
        if !peers.is_empty() {
            vip.insert("peers".to_owned(), json!(peers));
        }
        Value::Object(vip)
    };
    held.iter().map(of_address).collect()
}

/// A `vrrp_script` as a check.
fn check(script: &Entry, place: &str, writer: &mut Writer) -> Option<Value> {
    let origin = format!("{place}: vrrp_script {:?}", script.value().unwrap_or_default());
    // A script in quotes is one word.
    let line = script.all("script").last()?;
    let command: Vec<&str> = line.words[1..].iter().flat_map(|words| words.split_whitespace()).collect();
    if !command.first().is_some_and(|program| program.starts_with('/'))
        || line.words.iter().any(|word| word.contains(['\'', '|', ';', '&', '>']))
    {
        let why = format!(
            "its script {:?} is no program by its path with plain arguments: put it into a file, and name that in checks",
            line.words[1..].join(" ")
        );
        writer.refuse(&origin, &why);
        return None;
    }
    let mut check = json!({ "command": { "command": command } });
    let seconds = |keyword: &str| script.last(keyword)?.parse::<u64>().ok()?.checked_mul(1000);
    // One second by default; an attempt may take as long as that, if nothing is said.
    let interval = seconds("interval").unwrap_or(1000);
    check["intervalMs"] = json!(interval);
    check["timeoutMs"] = json!(seconds("timeout").unwrap_or(interval).min(interval));
    for (keyword, default) in [("rise", 1), ("fall", 1)] {
        check[keyword] =
            json!(script.last(keyword).and_then(|value| value.parse::<u64>().ok()).unwrap_or(default));
    }
    let weight = script.last("weight").and_then(|weight| weight.parse::<i64>().ok()).unwrap_or(0);
    if weight != 0 {
        let told =
            if weight > 0 { "raises the priority while the script succeeds" } else { "lowers the priority" };
        let what = format!(
            "weight {weight} {told}; a check of windlass vip that fails takes 100 from the priority, so that the node is unfit. Set \
             weight in checks for less"
        );
        writer.warn(&origin, &what);
    }
    Some(check)
}
