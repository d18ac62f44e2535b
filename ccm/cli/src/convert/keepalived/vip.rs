//! `vrrp_instance`s as settings of `windlass vip`, for addresses of a host's own programs, such as the API server's.

use serde_json::{Map, Value, json};

use super::super::write::{Place, Writer};
use super::instances::{self, Held, held, interface, script};
use super::syntax::Entry;
use super::{Configuration, unread};

/// Priorities that `windlass vip` takes.
const PRIORITY: std::ops::RangeInclusive<u64> = 101..=200;

/// Prints the settings of all instances, for these ports.
pub(super) fn convert(configurations: &[Configuration<'_>], ports: &[u16], writer: &Writer) {
    let mut vips = Vec::new();
    for configuration in configurations {
        vips.extend(instances::all(configuration).flat_map(|one| settings(configuration, one, ports)));
        unread::report(configuration, true);
    }
    writer.vips(&vips);
}

/// One for each address of an instance.
fn settings(configuration: &Configuration<'_>, instance: &Entry, ports: &[u16]) -> Vec<Value> {
    let place = configuration.named(instance);
    let mut vip = Map::new();
    vip.insert("ports".to_owned(), json!(ports));
    elect(instance, &place, &mut vip);
    let checks = checks(configuration, instance, &place);
    if checks.is_empty() {
        place.warn(
            "the settings have no check, so a node keeps the address even if its program has stopped. Write `checks` \
             (docs/api-vip.md), for example `https: {url: \"https://127.0.0.1:6443/readyz\"}` for an API server",
        );
    } else {
        vip.insert("checks".to_owned(), json!(checks));
    }
    let held = held(configuration, instance);
    if held.is_empty() {
        place.refuse("it has no address; add one");
        return Vec::new();
    }
    place.note(
        "keepalived adds its addresses to the interface, and `windlass vip` does not. If the program listens on the address \
         itself and not on all addresses, `bind: true` may be needed",
    );
    let peers = instance.all("unicast_peer").flat_map(|block| &block.block).map(Entry::keyword);
    let peers: Vec<&str> = peers.filter(|peer| !peer.starts_with(['@', '$', '{'])).collect();
    let of_adverts = interface(instance);
    let mut vips = Vec::new();
    for Held { address, interface, .. } in held {
        let mut vip = vip.clone();
        vip.insert("address".to_owned(), json!(address));
        if let Some(interface) = interface.or(of_adverts) {
            vip.insert("interface".to_owned(), json!(interface));
        }
        let of_family: Vec<&&str> =
            peers.iter().filter(|peer| peer.contains(':') == address.is_ipv6()).collect();
        if !of_family.is_empty() {
            vip.insert("peers".to_owned(), json!(of_family));
        } else if !peers.is_empty() {
            place.warn(format!(
                "its unicast peers are of another family than {address}, so adverts for that address go by multicast. Name \
                 addresses of that family in `peers` for unicast"
            ));
        }
        vips.push(Value::Object(vip));
    }
    vips
}

/// Priority, preemption and the time between adverts.
fn elect(instance: &Entry, place: &Place<'_>, vip: &mut Map<String, Value>) {
    match instance.last("priority").map(str::parse::<u64>) {
        Some(Ok(priority)) if PRIORITY.contains(&priority) => {
            vip.insert("priority".to_owned(), json!(priority));
        }
        Some(_) => place.warn(
            "its priority is not 101 to 200, the range of fit nodes with `windlass vip`. The settings have no priority, so the \
             Active keeps the address. Set `priority` on the nodes in the order that you want",
        ),
        None => {}
    }
    // keepalived's default is that the higher priority takes over.
    let preempts = !instance.has("nopreempt");
    if vip.contains_key("priority") && preempts {
        vip.insert("preempt".to_owned(), json!(true));
    }
    let Some(text) = instance.last("advert_int") else { return };
    // In seconds.
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=40.95).contains(&seconds) => {
            vip.insert("advertIntervalMs".to_owned(), json!(milliseconds(seconds) / 10 * 10));
        }
        Ok(_) | Err(_) => {
            place.warn(format!(
                "advert_int {text:?} is not 0.01 to 40.95 seconds, so the default of 100 ms applies. Set advertIntervalMs"
            ));
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` keeps within the bounds, and none is near"
)]
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0).round() as u64
}

/// The scripts that it tracks, as checks.
fn checks(configuration: &Configuration<'_>, instance: &Entry, place: &Place<'_>) -> Vec<Value> {
    let mut checks = Vec::new();
    for track in instance.all("track_script").flat_map(|block| &block.block) {
        let Some(script) = script(&configuration.entries, track) else {
            place.warn(format!(
                "its track_script names {:?}, and there is no such vrrp_script, so it became no check. Add the vrrp_script, or \
                 remove the name",
                track.keyword()
            ));
            continue;
        };
        script.mark();
        // That of the instance counts before that of the script.
        let own = track.words.iter().skip_while(|word| *word != "weight").nth(1).map(String::as_str);
        checks.extend(check(script, own, &configuration.named(script)));
    }
    checks
}

/// A `vrrp_script` as a check.
fn check(script: &Entry, own_weight: Option<&str>, place: &Place<'_>) -> Option<Value> {
    let number = |keyword: &str, default: f64| {
        let Some(text) = script.last(keyword) else { return default };
        text.parse::<f64>().ok().filter(|number| (0.0..=1e6).contains(number)).unwrap_or_else(|| {
            place.warn(format!(
                "{keyword} {text:?} is not a number from 0 to 1000000, so {default} applies. Correct it"
            ));
            default
        })
    };
    // One second by default; an attempt may take as long as that, if nothing is said.
    let interval = number("interval", 1.0);
    let timeout = number("timeout", interval).min(interval);
    let [rise, fall] = ["rise", "fall"].map(|keyword| milliseconds(number(keyword, 1.0)) / 1000);
    let weight = script.last("weight");
    if let Some(weight) = own_weight.or(weight).filter(|weight| *weight != "0") {
        let effect = if weight.starts_with('-') {
            "lowers the priority"
        } else {
            "raises the priority while the script succeeds"
        };
        place.warn(format!(
            "weight {weight} {effect}; a failed check of `windlass vip` lowers the priority by 100, so the node becomes unfit. \
             Set a lower `weight` in `checks` to lower it less"
        ));
    }
    // A script in quotes is one word.
    let Some(line) = script.all("script").last() else {
        place.refuse(
            "it has no script, so it became no check: name the program of the check in `script`, or write `checks`",
        );
        return None;
    };
    let command: Vec<&str> = line.words[1..].iter().flat_map(|words| words.split_whitespace()).collect();
    if !command.first().is_some_and(|program| program.starts_with('/'))
        || line.words.iter().any(|word| word.contains(['\'', '|', ';', '&', '>']))
    {
        place.refuse(format!(
            "its script {:?} is not an absolute path of a program with plain arguments: write the commands into a file, and name \
             that file in `checks`",
            line.words[1..].join(" ")
        ));
        return None;
    }
    Some(json!({
        "command": { "command": command }, "intervalMs": milliseconds(interval), "timeoutMs": milliseconds(timeout),
        "rise": rise, "fall": fall,
    }))
}
