//! Netlink attributes: length and type in the machine's byte order, then the value, padded to four bytes.
//!
//! Netfilter wants its integers in network byte order. Layout: `linux/netlink.h`.

const HEADER: usize = 4;
const NESTED: u16 = 0x8000;
/// Takes away the two flag bits of an attribute's type.
const TYPE: u16 = 0x3fff;

/// A list of attributes, as bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text, which ends with a zero.
    pub fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(kind, &bytes)
    }

    /// Adds a number of four bytes.
    pub fn number(self, kind: u16, value: u32) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// Adds a number of eight bytes.
    pub fn long(self, kind: u16, value: u64) -> Self {
        self.bytes(kind, &value.to_be_bytes())
    }

    /// Adds a list of attributes.
    pub fn nest(self, kind: u16, inner: &Self) -> Self {
        self.bytes(kind | NESTED, &inner.0)
    }

    /// Adds bytes as they are.
    pub fn bytes(mut self, kind: u16, value: &[u8]) -> Self {
        // What does not fit would be refused by the kernel as malformed; the longest is a piece of a set, of limited size.
        let length = u16::try_from(value.len().saturating_add(HEADER)).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds all attributes of another list.
    pub fn and(mut self, other: &Self) -> Self {
        self.0.extend(&other.0);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The list as the kernel takes it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The attributes in `bytes`, as type and value. Ends at what is malformed.
pub(crate) fn read(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (kind, _) = rest.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_ne_bytes(*length));
        let value = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes(*kind) & TYPE, value))
    })
}

/// The value of the first attribute of this type.
pub fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    read(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// The value of the first attribute of this type, a number of four bytes.
pub fn find_number(bytes: &[u8], kind: u16) -> Option<u32> {
    Some(u32::from_be_bytes(find(bytes, kind)?.try_into().ok()?))
}

/// The value of the first attribute of this type, a number of eight bytes.
pub(crate) fn find_long(bytes: &[u8], kind: u16) -> Option<u64> {
    Some(u64::from_be_bytes(find(bytes, kind)?.try_into().ok()?))
}

/// The value of the first attribute of this type, a text that ends with a zero.
pub(crate) fn find_text(bytes: &[u8], kind: u16) -> Option<&str> {
    std::str::from_utf8(find(bytes, kind)?.split(|byte| *byte == 0).next()?).ok()
}
