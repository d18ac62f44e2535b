//! `balance` of a draft into settings.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::checks::{DEFAULT_RHYTHM, backend_check};
use super::draft::BalanceDraft;
use super::given::{Field, Given, SettingsError, Text, shown};
use super::values::{family, unusable};
use super::{BalanceSettings, CheckKind, CheckSettings, Rhythm, SourceAddress};
use crate::checks::{HttpQuestion, Question, Tls, Trust};

/// Returns the balancing of connections to `address`. `virtual_ips` are all that this process serves, `checks` those of this node: a check
/// that makes a node fit also judges a backend, whose server may accept connections and answer nothing.
pub(super) fn balance(
    field: &Field<'_>,
    given: &Given<BalanceDraft>,
    address: IpAddr,
    virtual_ips: &BTreeSet<IpAddr>,
    checks: &[CheckSettings],
) -> Result<BalanceSettings, SettingsError> {
    let draft = &given.value;
    let list = field.field("backends");
    let mut backends = BTreeSet::new();
    let texts = draft.backends.as_ref().map_or(&[][..], |texts| &texts.value[..]);
    for (number, text) in texts.iter().enumerate() {
        let field = list.item(number);
        let backend = backend(&field, text, address, virtual_ips)?;
        if !backends.insert(backend) {
            return Err(field.mistake(text, format!("{backend} is named twice"), "name it once"));
        }
    }
    if backends.is_empty() {
        const REMEDY: &str = "name the nodes that serve, as 192.0.2.11:6443, or leave balance out";
        return Err(match &draft.backends {
            Some(texts) => list.mistake(texts, "the list is empty", REMEDY),
            None => list.mistake(given, "it is missing", REMEDY),
        });
    }
    let source = match &draft.source {
        None => SourceAddress::default(),
        Some(text) => source(&field.field("source"), text)?,
    };
    let (question, rhythm) = match &draft.check {
        None => question_of(checks, &backends).unwrap_or((Question::Tcp, DEFAULT_RHYTHM)),
        Some(check) => backend_check(&field.field("check"), check)?,
    };
    Ok(BalanceSettings { backends, source, question, rhythm })
}

/// Returns question and rhythm of the first check that asks this host at the port that all backends have.
fn question_of(checks: &[CheckSettings], backends: &BTreeSet<SocketAddr>) -> Option<(Question, Rhythm)> {
    checks.iter().find_map(|check| match &check.kind {
        CheckKind::Server { target, question } => {
            let is_of_backends = backends.iter().all(|backend| backend.port() == target.port);
            let is_alike = target.is_this_host() && is_of_backends && is_of_every_node(question);
            is_alike.then(|| (question.clone(), check.rhythm))
        }
        CheckKind::Command(_) => None,
    })
}

/// A certificate that is pinned is one node's alone.
fn is_of_every_node(question: &Question) -> bool {
    match question {
        Question::Http(HttpQuestion { tls: Some(Tls { trust: Trust::Certificate(_), .. }), .. }) => false,
        Question::Http(_) | Question::Tcp | Question::Grpc { .. } => true,
    }
}

fn backend(
    field: &Field<'_>,
    text: &Text,
    address: IpAddr,
    virtual_ips: &BTreeSet<IpAddr>,
) -> Result<SocketAddr, SettingsError> {
    let value = shown(&text.value);
    let example = if address.is_ipv4() { "192.0.2.11:6443" } else { "[2001:db8::11]:6443" };
    let wrong = |problem: String, remedy: &str| Err(field.mistake(text, problem, remedy));
    let Ok(backend) = text.value.parse::<SocketAddr>() else {
        return wrong(format!("{value} is not an address with a port"), &format!("write it as {example}"));
    };
    let ip = backend.ip();
    if backend.port() == 0 {
        return wrong(format!("{value} has port 0, which no server can use"), "use 1 to 65535");
    }
    if let Some(why) = unusable(ip) {
        return wrong(
            format!("{value} has {why}"),
            &format!("use the node's address on its network, as {example}"),
        );
    }
    if virtual_ips.contains(&ip) {
        return wrong(format!("{value} is a virtual IP"), "give the node's own address");
    }
    if ip.is_ipv4() != address.is_ipv4() {
        let problem = format!("{value} is {}, and virtual IP {address} is {}", family(ip), family(address));
        return wrong(problem, &format!("name backends of the virtual IP's family, as {example}"));
    }
    // Neither flow nor zone is anything that a rule of nftables could go by.
    Ok(SocketAddr::new(ip, backend.port()))
}

fn source(field: &Field<'_>, text: &Text) -> Result<SourceAddress, SettingsError> {
    match text.value.as_str() {
        "Masquerade" => Ok(SourceAddress::Masquerade),
        "Keep" => Ok(SourceAddress::Keep),
        other => Err(field.mistake(
            text,
            format!("{} is neither Masquerade nor Keep", shown(other)),
            "use one of the two",
        )),
    }
}
