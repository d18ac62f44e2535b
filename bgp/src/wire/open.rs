//! OPEN: a speaker's offer (RFC 4271 §4.2).

use super::capabilities::Capabilities;
use super::reader::Reader;
use super::writer::{behind_byte, message};
use super::{ErrorCode, Notification, OPEN};
use crate::units::{Asn, HoldTime, RouterId};

const VERSION: u8 = 4;
/// Optional parameter that has capabilities (RFC 5492).
const CAPABILITIES: u8 = 2;
/// Stands in place of length and first parameter where both lengths have two bytes (RFC 9072).
const EXTENDED: u8 = 255;

/// OPEN, with values that a speaker may offer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// Its AS: that of the capability, or else of the fixed field.
    pub asn: Asn,
    /// Its hold time.
    pub hold_time: HoldTime,
    /// Its identifier.
    pub router_id: RouterId,
    /// Its capabilities.
    pub capabilities: Capabilities,
}

impl Open {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, OPEN, |out| {
            out.push(VERSION);
            out.extend(self.asn.in_two_bytes().to_be_bytes());
            out.extend(self.hold_time.seconds().to_be_bytes());
            out.extend(self.router_id.get().octets());
            behind_byte(out, |out| {
                let mut capabilities = Vec::new();
                behind_byte(&mut capabilities, |out| self.capabilities.encode(out));
                if capabilities != [0] {
                    out.push(CAPABILITIES);
                    out.extend(capabilities);
                }
            });
        });
    }

    pub(super) fn decode(body: &[u8]) -> Result<Self, Notification> {
        let malformed = || Notification::from(ErrorCode::MALFORMED_OPEN);
        let mut reader = Reader::new(body);
        let version = reader.byte().ok_or_else(malformed)?;
        if version != VERSION {
            return Err(Notification { error: ErrorCode::UNSUPPORTED_VERSION, data: vec![0, VERSION] });
        }
        let (my_as, hold_time) = reader.short().zip(reader.short()).ok_or_else(malformed)?;
        let router_id = reader.bytes::<4>().ok_or_else(malformed)?;
        let capabilities = Capabilities::decode(parameters(&mut reader)?)?;
        let asn = match capabilities.four_octet_as {
            Some(asn) if u16::try_from(asn).is_ok_and(|asn| asn != my_as) => {
                return Err(ErrorCode::BAD_PEER_AS.into());
            }
            four_octet => four_octet.unwrap_or_else(|| my_as.into()),
        };
        Ok(Self {
            asn: Asn::new(asn).map_err(|_| ErrorCode::BAD_PEER_AS)?,
            hold_time: HoldTime::new(hold_time).map_err(|_| ErrorCode::UNACCEPTABLE_HOLD_TIME)?,
            router_id: RouterId::new(router_id.into()).map_err(|_| ErrorCode::BAD_IDENTIFIER)?,
            capabilities,
        })
    }
}

/// Returns the values of the Capabilities parameters, which must fill the message.
fn parameters<'a>(reader: &mut Reader<'a>) -> Result<Vec<Reader<'a>>, Notification> {
    let malformed = || Notification::from(ErrorCode::MALFORMED_OPEN);
    let length = reader.byte().ok_or_else(malformed)?;
    let extended = length > 0 && reader.rest().first() == Some(&EXTENDED);
    let length = if extended {
        reader.byte().and_then(|_| reader.short()).ok_or_else(malformed)?
    } else {
        length.into()
    };
    if reader.rest().len() != usize::from(length) {
        return Err(malformed());
    }
    let mut values = Vec::new();
    while !reader.is_empty() {
        let kind = reader.byte().ok_or_else(malformed)?;
        let length = if extended { reader.short() } else { reader.byte().map(u16::from) };
        let value = length.and_then(|length| reader.part(length)).ok_or_else(malformed)?;
        if kind != CAPABILITIES {
            return Err(ErrorCode::UNSUPPORTED_PARAMETER.into());
        }
        values.push(value);
    }
    Ok(values)
}
