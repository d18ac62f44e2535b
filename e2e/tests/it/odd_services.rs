//! Services unlike the ordinary one, each with a client that uses it: SCTP, several protocols on one port, a hundred ports,
//! node ports and health checks through the changes of the type.

mod client;
mod ports;
mod sctp;
mod sctp_packets;
mod types;
mod watched;
