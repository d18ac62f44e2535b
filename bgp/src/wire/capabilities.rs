//! Capabilities of an OPEN (RFC 5492).

use std::collections::BTreeSet;

use super::reader::Reader;
use super::writer::behind_byte;
use super::{ErrorCode, Notification, UNICAST, decode_family};
use crate::units::Family;

const MULTIPROTOCOL: u8 = 1;
const ROUTE_REFRESH: u8 = 2;
const EXTENDED_NEXT_HOP: u8 = 5;
const FOUR_OCTET_AS: u8 = 65;

/// IPv4 unicast routes with an IPv6 next hop (RFC 8950): AFI 1, SAFI 1, AFI of the next hop 2.
const IPV4_BY_IPV6: [u8; 6] = [0, 1, 0, 1, 0, 2];

/// Capabilities of a speaker; those that it does not know are left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Families of routes (RFC 4760). IPv4 alone is also that of a speaker without this capability; a peer may offer none that the
    /// speaker knows.
    pub families: BTreeSet<Family>,
    /// It understands ROUTE-REFRESH (RFC 2918).
    pub route_refresh: bool,
    /// It takes IPv4 routes with an IPv6 next hop (RFC 8950).
    pub extended_next_hop: bool,
    /// Its AS, in four bytes (RFC 6793).
    pub four_octet_as: Option<u32>,
}

impl Capabilities {
    /// Capabilities of a speaker that sends none: IPv4 unicast.
    pub fn none() -> Self {
        let families = [Family::V4].into();
        Self { families, route_refresh: false, extended_next_hop: false, four_octet_as: None }
    }

    /// Appends the capabilities; nothing if they are those of a speaker that sends none.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        if *self == Self::none() {
            return;
        }
        self.encode_multiprotocol(out);
        if self.route_refresh {
            out.extend([ROUTE_REFRESH, 0]);
        }
        if self.extended_next_hop {
            out.push(EXTENDED_NEXT_HOP);
            behind_byte(out, |out| out.extend(IPV4_BY_IPV6));
        }
        if let Some(asn) = self.four_octet_as {
            out.push(FOUR_OCTET_AS);
            behind_byte(out, |out| out.extend(asn.to_be_bytes()));
        }
    }

    /// Appends the capability of each family; also the data of a refusal of the peer's (RFC 5492 §5).
    pub(crate) fn encode_multiprotocol(&self, out: &mut Vec<u8>) {
        for family in &self.families {
            let [high, low] = family.afi().to_be_bytes();
            out.extend([MULTIPROTOCOL, 4, high, low, 0, UNICAST]);
        }
    }

    /// Decodes the values of all Capabilities parameters of an OPEN, each with its own capabilities.
    pub(super) fn decode<'a>(parameters: impl IntoIterator<Item = Reader<'a>>) -> Result<Self, Notification> {
        let malformed = || Notification::from(ErrorCode::MALFORMED_OPEN);
        let mut capabilities = Self { families: BTreeSet::new(), ..Self::none() };
        let mut multiprotocol = false;
        for mut parameter in parameters {
            while !parameter.is_empty() {
                let (code, length) = parameter.byte().zip(parameter.byte()).ok_or_else(malformed)?;
                let mut value = parameter.part(length).ok_or_else(malformed)?;
                match code {
                    MULTIPROTOCOL => {
                        multiprotocol = true;
                        value.rest().first_chunk::<4>().filter(|_| length == 4).ok_or_else(malformed)?;
                        capabilities.families.extend(decode_family(&mut value));
                    }
                    ROUTE_REFRESH => capabilities.route_refresh = true,
                    EXTENDED_NEXT_HOP => {
                        let (forms, rest) = value.rest().as_chunks();
                        capabilities.extended_next_hop |= forms.contains(&IPV4_BY_IPV6);
                        if !rest.is_empty() {
                            return Err(malformed());
                        }
                    }
                    FOUR_OCTET_AS => {
                        capabilities.four_octet_as =
                            Some(value.word().filter(|_| length == 4).ok_or_else(malformed)?);
                    }
                    _ => {}
                }
            }
        }
        if !multiprotocol {
            capabilities.families = Self::none().families;
        }
        Ok(capabilities)
    }
}
