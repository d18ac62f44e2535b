//! The checks of a draft into settings.

use std::collections::BTreeSet;
use std::time::Duration;

use http::HeaderValue;
use http::uri::PathAndQuery;
use rustls::pki_types::ServerName;

use super::draft::{CheckDraft, CommandDraft, GrpcDraft, HttpDraft, TcpDraft};
use super::given::{Field, Given, SettingsError, Text, shown};
use super::target::{self, Wrong};
use super::values::{absolute_path, number};
use super::{CheckKind, CheckSettings, Rhythm};
use crate::checks::{HttpQuestion, Question, Target, Tls, Trust};

const INTERVAL_MS: std::ops::RangeInclusive<u64> = 50..=60_000;
const DEFAULT_INTERVAL_MS: u64 = 500;
const DEFAULT_TIMEOUT_MS: u64 = 500;
const SHORTEST_TIMEOUT_MS: u64 = 10;
const TIMES: std::ops::RangeInclusive<u64> = 1..=100;
const DEFAULT_RISE: u32 = 2;
const DEFAULT_FALL: u32 = 3;
const WEIGHT: std::ops::RangeInclusive<u64> = 1..=200;
const DEFAULT_WEIGHT: u8 = 100;

const KINDS: &str = "give one of http, https, tcp, grpc and command";

/// A check of this node.
pub(super) fn check(field: &Field<'_>, given: &Given<CheckDraft>) -> Result<CheckSettings, SettingsError> {
    let draft = &given.value;
    let kind = match one_kind(field, given, KINDS)? {
        Kind::Http(http, scheme) => {
            let (field, page) = (field.field(scheme), &http.value);
            if let Some(path) = &page.path {
                let problem = "only a check of backends has the field path";
                return Err(field.field("path").mistake(path, problem, "write the path into url"));
            }
            let url = required(&field, http, "url", page.url.as_ref(), "https://127.0.0.1:6443/readyz")?;
            let (target, path) =
                target::page(&url.value, scheme).map_err(|wrong| told(&field.field("url"), url, wrong))?;
            let question = Question::Http(http_question(&field, page, path, scheme)?);
            CheckKind::Server { target, question }
        }
        Kind::Tcp(tcp) => {
            let field = field.field("tcp");
            let target = server(&field, tcp, tcp.value.address.as_ref())?;
            CheckKind::Server { target, question: Question::Tcp }
        }
        Kind::Grpc(grpc) => {
            let field = field.field("grpc");
            let target = server(&field, grpc, grpc.value.address.as_ref())?;
            CheckKind::Server { target, question: grpc_question(&field, &grpc.value)? }
        }
        Kind::Command(command) => CheckKind::Command(words(&field.field("command"), command)?),
    };
    let weight = draft.weight.as_ref().map(|weight| number(&field.field("weight"), weight, &WEIGHT));
    let weight = weight.transpose()?.unwrap_or(DEFAULT_WEIGHT);
    Ok(CheckSettings { kind, rhythm: rhythm(field, draft)?, weight })
}

/// A check of backends, whose addresses stand elsewhere.
pub(super) fn backend_check(
    field: &Field<'_>,
    given: &Given<CheckDraft>,
) -> Result<(Question, Rhythm), SettingsError> {
    const KINDS: &str = "give one of http, https, tcp and grpc";
    let draft = &given.value;
    if let Some(weight) = &draft.weight {
        let problem = "a check of backends has no weight, because a backend has no priority";
        return Err(field.field("weight").mistake(weight, problem, "leave it out"));
    }
    let no_address = |field: Field<'_>, given: Option<&Text>| match given {
        Some(text) => {
            let problem = format!(
                "{} is not used, because Windlass asks each backend at its own address",
                shown(&text.value)
            );
            Err(field.mistake(text, problem, "leave it out"))
        }
        None => Ok(()),
    };
    let question = match one_kind(field, given, KINDS)? {
        Kind::Http(http, scheme) => {
            let (field, page) = (field.field(scheme), &http.value);
            if let Some(url) = &page.url {
                let problem = "Windlass asks each backend at its own address";
                return Err(field.field("url").mistake(url, problem, "give path instead, as /readyz"));
            }
            let path = match &page.path {
                None => "/".to_owned(),
                Some(text) if text.value.starts_with('/') && text.value.parse::<PathAndQuery>().is_ok() => {
                    text.value.clone()
                }
                Some(text) => {
                    let problem = format!("{} is not the path of a page", shown(&text.value));
                    return Err(field.field("path").mistake(text, problem, "write it as /readyz"));
                }
            };
            Question::Http(http_question(&field, page, path, scheme)?)
        }
        Kind::Tcp(tcp) => {
            no_address(field.field("tcp").field("address"), tcp.value.address.as_ref())?;
            Question::Tcp
        }
        Kind::Grpc(grpc) => {
            let field = field.field("grpc");
            no_address(field.field("address"), grpc.value.address.as_ref())?;
            grpc_question(&field, &grpc.value)?
        }
        Kind::Command(command) => {
            let problem = "a command runs on this node and cannot check a backend";
            return Err(field.field("command").mistake(command, problem, KINDS));
        }
    };
    Ok((question, rhythm(field, draft)?))
}

/// Default rhythm of a check.
pub(super) const DEFAULT_RHYTHM: Rhythm = Rhythm {
    interval: Duration::from_millis(DEFAULT_INTERVAL_MS),
    timeout: Duration::from_millis(DEFAULT_TIMEOUT_MS),
    rise: DEFAULT_RISE,
    fall: DEFAULT_FALL,
};

enum Kind<'a> {
    /// With its scheme, which is the field's name, too.
    Http(&'a Given<HttpDraft>, &'static str),
    Tcp(&'a Given<TcpDraft>),
    Grpc(&'a Given<GrpcDraft>),
    Command(&'a Given<CommandDraft>),
}

fn one_kind<'a>(
    field: &Field<'_>,
    given: &'a Given<CheckDraft>,
    remedy: &str,
) -> Result<Kind<'a>, SettingsError> {
    let draft = &given.value;
    let kinds = [
        draft.http.as_ref().map(|http| Kind::Http(http, "http")),
        draft.https.as_ref().map(|https| Kind::Http(https, "https")),
        draft.tcp.as_ref().map(Kind::Tcp),
        draft.grpc.as_ref().map(Kind::Grpc),
        draft.command.as_ref().map(Kind::Command),
    ];
    let mut kinds = kinds.into_iter().flatten();
    match (kinds.next(), kinds.next()) {
        (Some(kind), None) => Ok(kind),
        (None, _) => Err(field.mistake(given, "the check has no kind", remedy)),
        (Some(_), Some(_)) => Err(field.mistake(
            given,
            "a check has exactly one kind, and this check has several",
            format!("{remedy}, and make a check of each"),
        )),
    }
}

fn rhythm(field: &Field<'_>, draft: &CheckDraft) -> Result<Rhythm, SettingsError> {
    let interval_field = field.field("intervalMs");
    let interval: Option<u64> =
        draft.interval_ms.as_ref().map(|text| number(&interval_field, text, &INTERVAL_MS)).transpose()?;
    let interval = interval.unwrap_or(DEFAULT_INTERVAL_MS);
    let timeout = match &draft.timeout_ms {
        None => DEFAULT_TIMEOUT_MS.min(interval),
        Some(text) => {
            let field = field.field("timeoutMs");
            let timeout = number(&field, text, &(SHORTEST_TIMEOUT_MS..=*INTERVAL_MS.end()))?;
            if timeout > interval {
                let problem = format!("{timeout} is longer than {} {interval}", interval_field.short_name());
                let remedy = format!("use at most {interval}, or a longer interval");
                return Err(field.mistake(text, problem, remedy));
            }
            timeout
        }
    };
    let times = |name, text: Option<&Text>, default| match text {
        None => Ok(default),
        Some(text) => number(&field.field(name), text, &TIMES),
    };
    Ok(Rhythm {
        interval: Duration::from_millis(interval),
        timeout: Duration::from_millis(timeout),
        rise: times("rise", draft.rise.as_ref(), DEFAULT_RISE)?,
        fall: times("fall", draft.fall.as_ref(), DEFAULT_FALL)?,
    })
}

fn http_question(
    field: &Field<'_>,
    page: &HttpDraft,
    path: String,
    scheme: &str,
) -> Result<HttpQuestion, SettingsError> {
    let mut expect = vec![200..=200];
    if let Some(codes) = &page.expect {
        let field = field.field("expect");
        let code = |(item, code)| number(&field.item(item), code, &(200..=599));
        let given: BTreeSet<u16> = codes.value.iter().enumerate().map(code).collect::<Result<_, _>>()?;
        expect = given.into_iter().map(|code| code..=code).collect();
        if expect.is_empty() {
            return Err(field.mistake(
                codes,
                "the list is empty, so that no answer passes",
                "name a status code, as [200]",
            ));
        }
    }
    if let Some(host) = &page.host
        && (host.value.is_empty() || HeaderValue::from_str(&host.value).is_err())
    {
        let problem = format!("{} cannot be a Host header", shown(&host.value));
        return Err(field.field("host").mistake(host, problem, "write it as example.org:6443"));
    }
    let tls = if scheme == "https" { Some(tls(field, page)?) } else { no_tls(field, page).map(|()| None)? };
    let host = page.host.as_ref().map(|host| host.value.clone());
    Ok(HttpQuestion { path, expect, host, tls, reads_reason: true })
}

fn tls(field: &Field<'_>, page: &HttpDraft) -> Result<Tls, SettingsError> {
    let server_name = match &page.server_name {
        None => None,
        Some(text) => Some(ServerName::try_from(text.value.clone()).map_err(|_| {
            let problem = format!("{} cannot be the name in a certificate", shown(&text.value));
            field.field("serverName").mistake(text, problem, "give a DNS name or an IP address")
        })?),
    };
    let trust = match (&page.ca_file, &page.certificate_sha256) {
        (None, None) => Trust::Any,
        (Some(file), None) => Trust::Authority(absolute_path(&field.field("caFile"), file)?),
        (None, Some(hash)) => Trust::Certificate(sha256(&field.field("certificateSha256"), hash)?),
        (Some(_), Some(hash)) => {
            let field = field.field("certificateSha256");
            let problem = "the certificate's authority and its hash are both given";
            return Err(field.mistake(hash, problem, "leave one out"));
        }
    };
    Ok(Tls { server_name, trust })
}

fn no_tls(field: &Field<'_>, page: &HttpDraft) -> Result<(), SettingsError> {
    let HttpDraft { server_name, ca_file, certificate_sha256, url: _, path: _, expect: _, host: _ } = page;
    let given = [("serverName", server_name), ("caFile", ca_file), ("certificateSha256", certificate_sha256)];
    match given.into_iter().find_map(|(name, text)| text.as_ref().map(|text| (name, text))) {
        Some((name, text)) => {
            let problem = "plain HTTP has no certificate";
            Err(field.field(name).mistake(text, problem, "leave it out, or use https"))
        }
        None => Ok(()),
    }
}

/// A SHA-256 in 64 hexadecimal digits, with or without colons between its bytes.
fn sha256(field: &Field<'_>, text: &Text) -> Result<[u8; 32], SettingsError> {
    let digits: Vec<u8> = text.value.bytes().filter(|byte| *byte != b':').collect();
    let mut hash = [0; 32];
    let is_one = digits.len() == 64
        && digits.chunks(2).zip(&mut hash).all(|(pair, byte)| {
            let pair = str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|c| c.is_ascii_hexdigit()));
            pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).map(|value| *byte = value).is_some()
        });
    if is_one {
        return Ok(hash);
    }
    Err(field.mistake(
        text,
        format!("{} is not a SHA-256 of 64 hexadecimal digits", shown(&text.value)),
        "write what `openssl x509 -noout -fingerprint -sha256 -in FILE` prints after =",
    ))
}

fn grpc_question(field: &Field<'_>, grpc: &GrpcDraft) -> Result<Question, SettingsError> {
    let service = grpc.service.as_ref().map_or("", |text| text.value.as_str());
    match &grpc.service {
        Some(text) if service.len() > 256 || service.chars().any(|c| c.is_whitespace() || c.is_control()) => {
            let problem = format!("{} is not a service name", shown(service));
            Err(field.field("service").mistake(text, problem, "write it as etcdserverpb.KV"))
        }
        Some(_) | None => Ok(Question::Grpc { service: service.to_owned() }),
    }
}

fn server<T>(field: &Field<'_>, parent: &Given<T>, address: Option<&Text>) -> Result<Target, SettingsError> {
    let text = required(field, parent, "address", address, "127.0.0.1:2379")?;
    target::host_and_port(&text.value).map_err(|wrong| told(&field.field("address"), text, wrong))
}

fn required<'a, T>(
    field: &Field<'_>,
    parent: &Given<T>,
    name: &str,
    text: Option<&'a Text>,
    example: &str,
) -> Result<&'a Text, SettingsError> {
    let missing = || field.field(name).mistake(parent, "it is missing", format!("write it as {example}"));
    text.ok_or_else(missing)
}

fn told(field: &Field<'_>, text: &Text, (problem, remedy): Wrong) -> SettingsError {
    field.mistake(text, format!("{}: {problem}", shown(&text.value)), remedy)
}

const COMMAND_REMEDY: &str =
    "give the program's absolute path and its arguments, as [/usr/bin/test, -e, /run/ready]";

fn words(field: &Field<'_>, given: &Given<CommandDraft>) -> Result<Vec<String>, SettingsError> {
    let field = field.field("command");
    let Some(list) = &given.value.command else {
        return Err(field.mistake(given, "it is missing", COMMAND_REMEDY));
    };
    let Some(program) = list.value.first() else {
        return Err(field.mistake(list, "it names no program", COMMAND_REMEDY));
    };
    if !program.value.starts_with('/') {
        let problem = format!("{} is not an absolute path", shown(&program.value));
        return Err(field.item(0).mistake(program, problem, "begin it with /: no shell looks it up"));
    }
    if let Some((item, word)) = list.value.iter().enumerate().find(|(_, word)| word.value.contains('\0')) {
        let problem = format!("{} contains a byte 0", shown(&word.value));
        return Err(field.item(item).mistake(word, problem, "leave it out"));
    }
    Ok(list.value.iter().map(|word| word.value.clone()).collect())
}
