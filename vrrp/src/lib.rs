//! VRRPv3 (RFC 9568) wire format and state machine; pure, time is an argument.
