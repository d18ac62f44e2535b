//! Another program on a host, which has bits of packet marks and connection marks, as pod networks and policy routing have.

use crate::guard::scene::run;
use crate::lab::Host;

/// Sets its bits before the chains of the engine, and counts behind them the packets that lost some.
const TABLE: &str = "table inet others {
      chain before {
        type filter hook prerouting priority -160;
        meta mark set meta mark | 0x1bd10000
        ct mark set ct mark | 0x2ca60000
      }
      chain before-local {
        type filter hook output priority -160;
        meta mark set meta mark | 0x1bd10000
        ct mark set ct mark | 0x2ca60000
      }
      chain behind {
        type filter hook prerouting priority -140;
        meta mark & 0xffff0000 != 0x1bd10000 counter
        ct mark & 0xffff0000 != 0x2ca60000 counter
      }
      chain behind-local {
        type filter hook output priority -140;
        meta mark & 0xffff0000 != 0x1bd10000 counter
        ct mark & 0xffff0000 != 0x2ca60000 counter
      }
    }";

/// Marks all packets and connections of the host from now on.
pub(crate) fn add(host: &Host) {
    run(host, "nft -f -", TABLE);
}

/// Panics if a packet or its connection lost a bit.
pub(crate) fn assert_kept(host: &Host) {
    let shown = run(host, "nft list table inet others", "");
    let counters: Vec<&str> = shown.lines().filter(|line| line.contains("counter packets")).collect();
    assert_eq!(counters.len(), 4, "{shown}");
    let lost: Vec<&&str> = counters.iter().filter(|line| !line.contains("counter packets 0 ")).collect();
    assert!(lost.is_empty(), "{lost:#?}");
}
