//! The BGP speaker: what the settings do not contain, and what the engine was given last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use windlass_engine::bgp::{RouterId, State};
use windlass_engine::{Endpoint, Engine, HostAddresses, Md5Key, SessionStatus, Speaker};

use super::routes::{self, Standing};
use super::settings::{BgpSettings, PeerSettings, VipSettings};
use crate::bgp_sessions;

/// The announcer of routes. The engine has its threads.
#[derive(Default)]
pub(super) struct Announcer {
    /// It stays when the address goes from which it follows: another one would end all sessions.
    router_id: Option<RouterId>,
    passwords: BTreeMap<PathBuf, Md5Key>,
    /// Files of passwords that cannot be read.
    unreadable: BTreeMap<PathBuf, String>,
    speaker: Speaker,
    standings: BTreeMap<IpAddr, Standing>,
}

impl Announcer {
    /// Reads what the sessions need besides the settings: passwords, and the identifier.
    pub(super) fn look(
        &mut self,
        bgp: &BgpSettings,
        machine: Option<&HostAddresses>,
        virtual_ips: &BTreeSet<IpAddr>,
    ) {
        let derived = self.router_id.or_else(|| routes::router_id(machine?, virtual_ips));
        self.router_id = bgp.router_id.or(derived);
        let files: BTreeSet<&Path> =
            bgp.peers.iter().filter_map(|peer| peer.password_file.as_deref()).collect();
        // A file that is gone for a moment, as while it is replaced, ends no session.
        self.passwords.retain(|file, _| files.contains(file.as_path()));
        let mut unreadable = BTreeMap::new();
        for file in files {
            match password(file) {
                Ok(key) => {
                    self.passwords.insert(file.to_owned(), key);
                }
                Err(why) => {
                    if self.unreadable.get(file) != Some(&why) {
                        tracing::error!("{why}");
                    }
                    unreadable.insert(file.to_owned(), why);
                }
            }
        }
        self.unreadable = unreadable;
    }

    /// Announces the virtual IPs by their standings; without settings, ends all sessions.
    pub(super) fn bring<'a>(
        &mut self,
        bgp: Option<&BgpSettings>,
        vips: impl Iterator<Item = (&'a VipSettings, Standing)>,
        engine: &Engine,
    ) {
        let vips: Vec<_> = vips.filter(|(vip, _)| vip.route.is_some()).collect();
        let standings: BTreeMap<_, _> = vips.iter().map(|(vip, standing)| (vip.address, *standing)).collect();
        for (address, standing) in &standings {
            if self.standings.get(address) != Some(standing) {
                log(*address, *standing);
            }
        }
        self.standings = standings;
        let speaker = match bgp.zip(self.router_id) {
            Some((bgp, router_id)) => routes::speaker(bgp, router_id, &self.passwords, vips.into_iter()),
            None => Speaker::default(),
        };
        if speaker != self.speaker {
            engine.speak(speaker.clone());
            self.speaker = speaker;
        }
    }

    /// Returns the standing of an address that is announced by BGP.
    pub(super) fn standing(&self, address: IpAddr) -> Option<Standing> {
        self.standings.get(&address).copied()
    }

    /// Returns why no router has the route of an address, though sessions are Established.
    pub(super) fn obstacle(&self, address: IpAddr, sessions: &[SessionStatus]) -> Option<String> {
        self.standing(address).filter(|standing| *standing != Standing::Withheld)?;
        let established = sessions.iter().filter(|session| session.state == State::Established);
        let negotiated = established.filter_map(|session| session.negotiated.as_ref());
        routes::untaken(address, negotiated.map(|negotiated| &negotiated.families))
    }

    /// Returns the sessions that are not Established, each with the reason and a remedy.
    pub(super) fn problems(&self, bgp: &BgpSettings, sessions: &[SessionStatus]) -> Vec<String> {
        if self.router_id.is_none() {
            return vec!["BGP: this host has no address yet: give it one, or set routerID".to_owned()];
        }
        let has_session = |peer: &PeerSettings| sessions.iter().any(|session| session.id.peer == peer.name());
        let missing = bgp.peers.iter().filter(|peer| !has_session(peer)).map(|peer| {
            let unreadable = peer.password_file.as_ref().and_then(|file| self.unreadable.get(file));
            let why = match (unreadable, &peer.endpoint) {
                (Some(why), _) => why.as_str(),
                (None, Endpoint::Address { .. }) => "it was just started",
                (None, Endpoint::Gateway(_)) => {
                    "no default route has such a gateway. Add the route, or name the router's address"
                }
            };
            format!("BGP peer {} has no session: {why}", peer.name())
        });
        let down = sessions.iter().filter(|session| session.state != State::Established);
        missing.chain(down.map(bgp_sessions::problem)).collect()
    }
}

fn password(file: &Path) -> Result<Md5Key, String> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        format!("cannot read the password file {name}: {error}. Write the password into it")
    })?;
    Md5Key::new(text.trim_end_matches(['\r', '\n']).as_bytes())
        .map_err(|error| format!("password file {name}: {error}. Write one line into it"))
}

fn log(address: IpAddr, standing: Standing) {
    match standing {
        Standing::Good => tracing::info!(%address, "offered to BGP routers"),
        // Each check that fails is a warning of its own.
        Standing::Degraded => tracing::info!(
            %address,
            "offered to BGP routers as degraded, because checks of this node fail or must prove themselves: routers prefer other nodes"
        ),
        Standing::Withheld => {
            tracing::warn!(%address, "not offered to BGP routers: this node cannot serve it");
        }
    }
}
