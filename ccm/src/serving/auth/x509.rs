//! What is read in certificates (RFC 5280): whom a client's names, and from when until when a CA's is valid. Who checks
//! signatures looks at no CA's own time: to it a CA that is trusted is trusted for ever. Kubernetes refuses what a CA signed
//! that ran out.

use rustls::pki_types::UnixTime;
use x509_parser::certificate::{Validity, X509Certificate};
use x509_parser::prelude::FromDer as _;
use x509_parser::time::ASN1Time;
use x509_parser::x509::AttributeTypeAndValue;

use super::User;

/// User and groups of a client certificate in DER: common name and organizations of its subject (RFC 5280 §4.1.2.6).
///
/// # Errors
/// What is no certificate, or one whose subject has no common name, or a name in a form that is not read.
pub(super) fn user(certificate: &[u8]) -> Result<User, String> {
    let certificate = parse(certificate)?;
    let subject = certificate.subject();
    // Of several the last one, as in Kubernetes.
    let name = subject.iter_common_name().last().map(text).transpose()?.unwrap_or_default();
    let groups = subject.iter_organization().map(text).collect::<Result<_, _>>()?;
    if name.is_empty() {
        return Err("its subject has no common name".to_owned());
    }
    Ok(User { name, groups, ..User::default() })
}

/// When a certificate in DER is valid (RFC 5280 §4.1.2.5).
///
/// # Errors
/// What is no certificate.
pub(super) fn validity(certificate: &[u8]) -> Result<Validity, String> {
    parse(certificate).map(|certificate| certificate.validity().clone())
}

/// Whether `now` is in it; both ends belong to it.
pub(super) fn covers(validity: &Validity, now: UnixTime) -> bool {
    let now = i64::try_from(now.as_secs()).ok().and_then(|now| ASN1Time::from_timestamp(now).ok());
    now.is_some_and(|now| validity.is_valid_at(now))
}

fn parse(der: &[u8]) -> Result<X509Certificate<'_>, String> {
    match X509Certificate::from_der(der) {
        Ok(([], certificate)) => Ok(certificate),
        Ok(_) => Err("there is something behind it".to_owned()),
        Err(error) => Err(format!("it is no certificate of RFC 5280: {error}")),
    }
}

fn text(attribute: &AttributeTypeAndValue<'_>) -> Result<String, String> {
    let text = attribute.as_str();
    text.map(str::to_owned).map_err(|error| format!("its subject has a name that is no text: {error}"))
}

#[cfg(test)]
mod tests;
