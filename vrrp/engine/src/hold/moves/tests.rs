use std::collections::BTreeSet;

use windlass_vrrp::Vrid;

use super::*;
use crate::config::RouterConfig;
use crate::core::holding_plan;

#[test]
fn connections_are_forwarded_where_nat_rules_take_the_vips_and_it_is_wanted() {
    let rows = [
        (Hold::Respond, true, true),
        (Hold::Respond, false, false),
        (Hold::Vmac, true, false),
        (Hold::Address, true, false),
    ];
    for (hold, forward_connections, expected) in rows {
        let router = RouterConfig::new("eth0", Vrid::new(1).unwrap(), [192, 0, 2, 1].into());
        let config = RouterConfig { hold, forward_connections, ..router };
        let plan = holding_plan::plan(&config, &BTreeSet::new(), &BTreeSet::new(), None);
        assert_eq!(forwards(&plan), expected, "{hold:?}, {forward_connections}");
    }
    let default = RouterConfig::new("eth0", Vrid::new(1).unwrap(), [192, 0, 2, 1].into());
    assert!(default.forward_connections);
}
