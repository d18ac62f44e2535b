//! The clients that may reach a Service (service-contract S-37). Pure.
//!
//! kube-proxy enforces `spec.loadBalancerSourceRanges` alone, for each family by itself: where all ranges are of one family, the other
//! family's address is open to all clients. It does not read the annotation. A provider that offers more than that enforces it itself;
//! [`SourceRanges::allowed`] returns the clients to let in.

use std::fmt;
use std::net::Ipv6Addr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Service;

use crate::text::shortened;

#[cfg(test)]
mod tests;

/// Annotation with a list of ranges, as `10.0.0.0/8, 2001:db8::/32`. Counts only where the field is empty.
pub const ANNOTATION_SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Bytes of a malformed value that an error shows.
const SHOWN: usize = 64;

/// Place in a Service where ranges are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller must not overlook a place")]
pub enum RangesPlace {
    /// `spec.loadBalancerSourceRanges`, which kube-proxy enforces for the families that it names.
    Field,
    /// [`ANNOTATION_SOURCE_RANGES`], which kube-proxy does not read.
    Annotation,
}

impl fmt::Display for RangesPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Field => "spec.loadBalancerSourceRanges",
            Self::Annotation => ANNOTATION_SOURCE_RANGES,
        })
    }
}

/// A range that is none. Upstream is as strict: an address without its prefix length and an empty entry (a comma at the end)
/// are errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceRangesError {
    /// Not an address with a prefix length.
    #[error(
        "{place}: {value:?} is not a range: write an address and a prefix length, as 192.0.2.0/24 or 2001:db8::/32"
    )]
    NotARange {
        /// Place of the entry.
        place: RangesPlace,
        /// The entry, cut to 64 bytes.
        value: String,
    },
    /// IPv4 in the form of IPv6, which some programs take for the one and some for the other.
    #[error("{place}: {value:?} is a range of IPv4 addresses mapped into IPv6: write it as IPv4")]
    Mapped {
        /// Place of the entry.
        place: RangesPlace,
        /// The entry.
        value: String,
    },
}

/// The ranges that a Service lets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRanges {
    place: RangesPlace,
    ranges: Vec<IpNet>,
}

impl SourceRanges {
    /// Reads a Service's ranges: the field, or the annotation where the field is empty. `None`: it names none, and lets all clients in.
    /// Only type LoadBalancer has ranges; the caller has to check the type.
    ///
    /// # Errors
    /// The first entry that is no range. The intended clients are unknown then: a provider that enforces ranges lets in no new clients.
    pub fn of(service: &Service) -> Result<Option<Self>, SourceRangesError> {
        let field = service.spec.as_ref().and_then(|spec| spec.load_balancer_source_ranges.as_ref());
        if let Some(field) = field.filter(|field| !field.is_empty()) {
            return Self::read(RangesPlace::Field, field.iter().map(String::as_str)).map(Some);
        }
        let annotations = service.metadata.annotations.as_ref();
        let text =
            annotations.and_then(|all| all.get(ANNOTATION_SOURCE_RANGES)).map_or("", |text| text.trim());
        if text.is_empty() {
            return Ok(None);
        }
        Self::read(RangesPlace::Annotation, text.split(',')).map(Some)
    }

    fn read<'a>(
        place: RangesPlace,
        entries: impl Iterator<Item = &'a str>,
    ) -> Result<Self, SourceRangesError> {
        let mut ranges = entries.map(|entry| range(place, entry.trim())).collect::<Result<Vec<_>, _>>()?;
        ranges.sort_unstable();
        ranges.dedup();
        Ok(Self { place, ranges })
    }

    /// Returns the place where the ranges are written.
    pub fn place(&self) -> RangesPlace {
        self.place
    }

    /// All of them, each once, in order, without the bits beyond the prefix length.
    pub fn ranges(&self) -> &[IpNet] {
        &self.ranges
    }

    /// Returns the clients of one family that are let in, in as few ranges as possible; an empty list lets in none of this family. `None`:
    /// all of this family are let in.
    pub fn allowed(&self, ipv4: bool) -> Option<Vec<IpNet>> {
        let own = self.ranges.iter().copied().filter(|range| range.addr().is_ipv4() == ipv4).collect();
        let own = IpNet::aggregate(&own);
        (!own.iter().any(|range| range.prefix_len() == 0)).then_some(own)
    }

    /// Returns true if kube-proxy drops clients of this family that are not allowed: the field contains ranges of the family.
    pub fn are_enforced_by_kube_proxy(&self, ipv4: bool) -> bool {
        match self.place {
            RangesPlace::Field => self.ranges.iter().any(|range| range.addr().is_ipv4() == ipv4),
            RangesPlace::Annotation => false,
        }
    }

    /// Returns true if all IPv4 addresses are allowed, as upstream's `IsAllowAll`. IPv6 does not count; see [`Self::allowed`].
    pub fn is_allow_all(&self) -> bool {
        self.ranges.iter().any(|range| range.addr().is_ipv4() && range.prefix_len() == 0)
    }
}

fn range(place: RangesPlace, entry: &str) -> Result<IpNet, SourceRangesError> {
    let value = || shortened(entry, SHOWN).to_owned();
    let Ok(range) = entry.parse::<IpNet>() else {
        return Err(SourceRangesError::NotARange { place, value: value() });
    };
    if let IpNet::V6(six) = range
        && six.prefix_len() >= 96
        && Ipv6Addr::to_ipv4_mapped(&six.addr()).is_some()
    {
        return Err(SourceRangesError::Mapped { place, value: value() });
    }
    Ok(range.trunc())
}
