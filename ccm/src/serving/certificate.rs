//! The endpoint's certificate: of files, of a folder, or made here.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::ServerConfig;
use tokio::sync::watch;

use super::options::{TlsSource, TlsVersion};
use super::{ServingError, tls};
use crate::files::{POLL_INTERVAL, WatchedFile};

#[cfg(test)]
mod tests;

/// Name of the pair in `--cert-dir`, as upstream has it.
const PAIR: &str = "cloud-controller-manager";

/// The configuration in use, and the files it came from.
#[derive(Debug)]
pub(crate) struct Certificate {
    config: watch::Sender<Arc<ServerConfig>>,
    files: Option<CertificateFiles>,
    min_version: TlsVersion,
}

#[derive(Debug)]
struct CertificateFiles {
    chain: WatchedFile,
    key: WatchedFile,
}

impl Certificate {
    /// Takes the certificate of `source`, or makes one for `bind_address`.
    pub(crate) fn load(
        source: &TlsSource,
        min_version: TlsVersion,
        bind_address: IpAddr,
    ) -> Result<Self, ServingError> {
        let (chain, key) = match source {
            TlsSource::Files { cert, key } => (cert.clone(), key.clone()),
            TlsSource::Folder(folder) => pair_in(folder, bind_address)?,
            TlsSource::SelfSigned => {
                let (chain, key) = self_signed(bind_address).map_err(ServingError::SelfSigned)?;
                let config = tls::config(chain.as_bytes(), key.as_bytes(), min_version);
                let config = watch::Sender::new(config.map_err(ServingError::SelfSigned)?);
                return Ok(Self { config, files: None, min_version });
            }
        };
        let pair = CertificateFiles { chain: WatchedFile::open(chain), key: WatchedFile::open(key) };
        match pair.config(min_version) {
            Ok(config) => Ok(Self { config: watch::Sender::new(config), files: Some(pair), min_version }),
            Err(reason) => {
                let [cert, key] = [&pair.chain, &pair.key].map(|file| file.path().to_owned());
                Err(ServingError::Certificate { cert, key, reason })
            }
        }
    }

    /// The configuration for the next connection.
    pub(crate) fn current(&self) -> watch::Receiver<Arc<ServerConfig>> {
        self.config.subscribe()
    }

    /// Takes over the files whenever they change.
    pub(crate) async fn follow(mut self) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            match self.reread() {
                None => {}
                Some(Ok(())) => tracing::info!("the certificate of this endpoint changed"),
                Some(Err(reason)) => {
                    tracing::warn!(error = %reason, "the new certificate of this endpoint is refused, the old one stays");
                }
            }
        }
    }

    /// Looks at the files; `None` when nothing changed.
    fn reread(&mut self) -> Option<Result<(), String>> {
        let pair = self.files.as_mut()?;
        if !pair.refresh() {
            return None;
        }
        Some(pair.config(self.min_version).map(|config| drop(self.config.send_replace(config))))
    }
}

impl CertificateFiles {
    /// Reads both files again; returns true if one of them changed.
    fn refresh(&mut self) -> bool {
        let [chain, key] = [self.chain.refresh(), self.key.refresh()];
        chain || key
    }

    fn config<'a>(&'a self, min_version: TlsVersion) -> Result<Arc<ServerConfig>, String> {
        let content = |file: &'a WatchedFile| file.content().map_err(|error| error.to_string());
        tls::config(content(&self.chain)?, content(&self.key)?, min_version)
    }
}

/// The files of `--cert-dir`, which are written if neither is there.
fn pair_in(folder: &Path, bind_address: IpAddr) -> Result<(PathBuf, PathBuf), ServingError> {
    let [chain, key] = ["crt", "key"].map(|end| folder.join(format!("{PAIR}.{end}")));
    match (chain.exists(), key.exists()) {
        (true, true) => {}
        (false, false) => {
            let (chain_text, key_text) = self_signed(bind_address).map_err(ServingError::SelfSigned)?;
            let written = std::fs::create_dir_all(folder)
                .and_then(|()| write(&key, &key_text, 0o600))
                .and_then(|()| write(&chain, &chain_text, 0o644));
            written.map_err(|source| ServingError::Folder { folder: folder.to_owned(), source })?;
        }
        (there, _) => {
            let missing = if there { &key } else { &chain };
            let reason =
                format!("{} is missing; a certificate and its key come as a pair", missing.display());
            return Err(ServingError::Certificate { cert: chain, key, reason });
        }
    }
    Ok((chain, key))
}

fn write(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}

/// A certificate and its key, in PEM, for this host's names.
fn self_signed(bind_address: IpAddr) -> Result<(String, String), String> {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let params = params(host.as_deref(), bind_address, Timestamp::now())?;
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let certificate = params.self_signed(&key).map_err(|error| error.to_string())?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn params(host: Option<&str>, bind_address: IpAddr, now: Timestamp) -> Result<CertificateParams, String> {
    let host = host.filter(|name| !name.is_empty()).map(str::to_ascii_lowercase);
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, host.as_deref().unwrap_or("localhost"));
    let mut names = vec![String::from("localhost")];
    names.extend(host);
    // A host name that no certificate can have is left out.
    params.subject_alt_names =
        names.into_iter().filter_map(|name| name.try_into().ok().map(SanType::DnsName)).collect();
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    if !bind_address.is_unspecified() && !bind_address.is_loopback() {
        addresses.push(bind_address);
    }
    params.subject_alt_names.extend(addresses.into_iter().map(SanType::IpAddress));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // From a day ago, for clocks that differ.
    let today = now.to_zoned(TimeZone::UTC).date();
    let (from, until) = (today.checked_sub(1.day()), today.checked_add(10.years()));
    let (from, until) = from.and_then(|from| until.map(|until| (from, until))).map_err(|e| e.to_string())?;
    let date = |day: jiff::civil::Date| {
        let [month, day_of_month] = [day.month(), day.day()].map(i8::unsigned_abs);
        date_time_ymd(i32::from(day.year()), month, day_of_month)
    };
    (params.not_before, params.not_after) = (date(from), date(until));
    Ok(params)
}
