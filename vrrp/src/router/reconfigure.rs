//! Changes of a running router's configuration.

use std::collections::BTreeSet;

use super::fallback::Copies;
use super::state_data::StateData;
use super::{Action, Announce, Config, Router};
use crate::units::Time;

impl Router {
    /// Changes the configuration of a router, running or not, and keeps its state.
    ///
    /// An Active immediately advertises what its Backups must know (priority, interval, source, versions, list): a longer interval
    /// advertised late would look like silence. New addresses are announced. A Backup's timer counts from the same advert as before,
    /// for the Active_Down_Interval (or Skew_Time) of the new priority and, while it has learned no Active's interval, of the new one; if
    /// that time is over, it fires immediately.
    pub fn reconfigure(&mut self, config: Config, now: Time) {
        self.yield_if_stalled(now);
        let old = std::mem::replace(&mut self.config, config);
        let new = &self.config;
        self.upgraded.adapt(new);
        self.fallback.adapt(new);
        match &mut self.state_data {
            StateData::Initialize => {}
            StateData::Backup(backup) => backup.adapt(new, now),
            StateData::Active(_) => {
                let added: BTreeSet<_> = new.addresses.difference(&old.addresses).copied().collect();
                let announced = |c: &Config| (c.priority, c.interval, c.primary, c.versions);
                if announced(&old) != announced(new) || old.addresses != new.addresses {
                    self.send_advert(Copies::Needed, now);
                }
                if !added.is_empty() {
                    self.actions.push_back(Action::Announce(Announce::Added(added)));
                }
            }
        }
    }
}
