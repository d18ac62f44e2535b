//! From when until when a CA's certificate is valid (RFC 5280 §4.1.2.5). Who checks signatures looks at no CA's own time: to
//! it a CA that is trusted is trusted for ever. Kubernetes refuses what a CA signed that ran out.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use rustls::pki_types::UnixTime;

use super::der::{SEQUENCE, take, value};

/// The version, if it is there.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// In seconds since 1970; both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    from: i64,
    until: i64,
}

impl Validity {
    /// That of a certificate in DER.
    ///
    /// # Errors
    /// What is wrong with the certificate.
    pub(super) fn of(mut certificate: &[u8]) -> Result<Self, &'static str> {
        let mut certificate = take(&mut certificate, SEQUENCE)?;
        let mut signed = take(&mut certificate, SEQUENCE)?;
        let (first, _) = value(&mut signed)?;
        if first == VERSION {
            let _serial = value(&mut signed)?;
        }
        let _algorithm = take(&mut signed, SEQUENCE)?;
        let _issuer = take(&mut signed, SEQUENCE)?;
        let mut validity = take(&mut signed, SEQUENCE)?;
        Ok(Self { from: time(&mut validity)?, until: time(&mut validity)? })
    }

    /// Whether it is valid at `now`.
    pub(super) fn covers(self, now: UnixTime) -> bool {
        i64::try_from(now.as_secs()).is_ok_and(|now| (self.from..=self.until).contains(&now))
    }
}

fn time(input: &mut &[u8]) -> Result<i64, &'static str> {
    const WRONG: &str = "it has a time that is none";
    let (tag, text) = value(input)?;
    let text = str::from_utf8(text).map_err(|_| WRONG)?.strip_suffix('Z').ok_or(WRONG)?;
    // Two digits of the year are of 1950 to 2049.
    let century = match tag {
        UTC_TIME if text < "50" => "20",
        UTC_TIME => "19",
        GENERALIZED_TIME => "",
        _ => return Err(WRONG),
    };
    let time = DateTime::strptime("%Y%m%d%H%M%S", format!("{century}{text}")).map_err(|_| WRONG)?;
    Ok(time.to_zoned(TimeZone::UTC).map_err(|_| WRONG)?.timestamp().as_second())
}

#[cfg(test)]
mod tests;
