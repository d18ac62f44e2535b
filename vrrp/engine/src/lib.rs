//! The Linux edge of the VRRP engine: raw and packet sockets, timer thread, ARP responder.
