//! The engine as one router of a group.

use windlass_engine::{Hold, Interval, Priority, RouterConfig, Transport, Vrid};

use crate::interop::dialect::VRID;
use crate::interop::setup::{AdvertDelivery, Setup};
use crate::lab::{Host, Node};

pub(crate) fn start(host: &Host, setup: &Setup) -> Node {
    let node = host.engine();
    node.engine.apply(vec![configuration(setup)]);
    node
}

fn configuration(setup: &Setup) -> RouterConfig {
    let transport = match setup.delivery {
        AdvertDelivery::Multicast => Transport::default(),
        AdvertDelivery::Unicast { accept_ttl, .. } => {
            Transport::Unicast { ttl: 255, accept_ttl: accept_ttl..=255 }
        }
    };
    let dialect = setup.dialect;
    let addresses = [Some(dialect.vip()), setup.second_vip.then(|| dialect.second_vip())];
    RouterConfig {
        priority: Priority::new(setup.priority).unwrap(),
        interval: Interval::from_millis(setup.interval_ms).unwrap(),
        preempt: setup.preempt,
        versions: dialect.versions(),
        checksum: setup.checksum,
        peers: setup.peers.iter().copied().collect(),
        addresses: addresses.into_iter().flatten().collect(),
        transport,
        hold: if setup.virtual_mac { Hold::Vmac } else { Hold::Respond },
        ..RouterConfig::new("eth0", Vrid::new(VRID).unwrap(), setup.source())
    }
}
