//! Maximum sizes of a request.

/// Maximum number of addresses of one family for one Service.
pub(crate) const MOST_OF_A_FAMILY: u8 = 8;

/// Maximum number of client ranges for one Service: as many as a `VirtualIP` holds.
pub(crate) const MOST_SOURCES: usize = 1024;

/// Maximum number of ports for one Service: as many as a `VirtualIP` holds.
pub(crate) const MOST_PORTS: usize = 4096;

/// Ports times ranges of one Service: each range at each port is an element in the kernel of every node.
pub(crate) const MOST_ELEMENTS: usize = 16_384;

/// Longest sharing key, in bytes.
pub(crate) const LONGEST_KEY: usize = 253;
/// Maximum number of namespaces that one Service shares with.
pub(crate) const MOST_NAMESPACES: usize = 64;
