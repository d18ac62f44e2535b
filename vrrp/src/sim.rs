//! Several routers on a LAN with faults, in virtual time.
