//! Faults of the LAN's switch: a partition in two, and the loss of VRRP multicast.

use anyhow::ensure;

use crate::lab::Lab;

impl Lab {
    /// Cuts the LAN in two: the hosts named here, and all others. In place of an earlier partition.
    pub fn partition(&self, part: &[&str]) -> anyhow::Result<()> {
        ensure!(!part.is_empty(), "a partition needs at least one host");
        let ports: anyhow::Result<Vec<String>> =
            part.iter().map(|name| Ok(format!("\"v-{}\"", self.host(name)?.name))).collect();
        let ports = ports?.join(", ");
        self.sandbox.script(&format!(
            "nsenter --net=/run/netns/lan nft -f - <<END
            table bridge partition
            delete table bridge partition
            table bridge partition {{ chain forward {{ type filter hook forward priority 0;
            iifname {{ {ports} }} oifname != {{ {ports} }} drop;
            iifname != {{ {ports} }} oifname {{ {ports} }} drop; }}; }}\nEND"
        ))?;
        Ok(())
    }

    /// The LAN's switch loses the multicast of VRRP, or no longer.
    pub fn filter_multicast(&self, filtered: bool) -> anyhow::Result<()> {
        let rules = if filtered { multicast_dropped("") } else { String::new() };
        self.set_multicast_filter(&rules)
    }

    /// The same only on these ways, each from one host to another. In place of an earlier filter.
    pub fn filter_multicast_on(&self, ways: &[(&str, &str)]) -> anyhow::Result<()> {
        let rules: anyhow::Result<String> = ways
            .iter()
            .map(|(from, to)| {
                let (from, to) = (&self.host(from)?.name, &self.host(to)?.name);
                Ok(multicast_dropped(&format!("iifname \"v-{from}\" oifname \"v-{to}\"")))
            })
            .collect();
        self.set_multicast_filter(&rules?)
    }

    fn set_multicast_filter(&self, rules: &str) -> anyhow::Result<()> {
        let table = if rules.is_empty() {
            String::new()
        } else {
            format!(
                "table bridge multicast {{ chain forward {{ type filter hook forward priority 0; {rules} }}; }}"
            )
        };
        self.sandbox.script(&format!(
            "nsenter --net=/run/netns/lan nft -f - <<END
            table bridge multicast
            delete table bridge multicast
            {table}\nEND"
        ))?;
        Ok(())
    }

    /// Ends a partition.
    pub fn heal(&self) -> anyhow::Result<()> {
        self.sandbox.script("nsenter --net=/run/netns/lan nft delete table bridge partition").map(drop)
    }
}

/// Rules that drop the adverts of both families that match.
fn multicast_dropped(matched: &str) -> String {
    format!(
        "{matched} ether type ip ip daddr 224.0.0.18 drop; {matched} ether type ip6 ip6 daddr ff02::12 drop; "
    )
}
