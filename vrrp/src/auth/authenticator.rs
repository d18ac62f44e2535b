//! Both halves of authentication, for a driver.

use super::key::Keyring;
use super::signer::Signer;
use super::trailer::{SignedData, Trailer};
use super::verifier::{VerifiedAdvert, Verifier};
use super::{AntiReplay, AuthError, AuthMode, WallTime};

/// Configuration of a virtual router's authentication.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authentication {
    /// The secrets.
    pub keyring: Keyring,
    /// Strictness of the router.
    pub mode: AuthMode,
    /// Test by which it recognises replayed adverts.
    pub anti_replay: AntiReplay,
}

/// Signs and admits the adverts of one virtual router. By default authentication is off: it does neither.
#[derive(Clone, Debug, Default)]
pub struct Authenticator {
    config: Option<Authentication>,
    signer: Signer,
    verifier: Verifier,
}

impl Authenticator {
    /// Creates an authenticator without history. `None`: authentication is off.
    pub fn new(config: Option<Authentication>) -> Self {
        Self { config, signer: Signer::default(), verifier: Verifier::default() }
    }

    /// Changes keys, mode or window, or turns authentication on or off. Sequences that were sent and received stay recorded.
    pub fn reconfigure(&mut self, config: Option<Authentication>) {
        self.config = config;
    }

    /// Its configuration; `None`: authentication is off.
    pub fn config(&self) -> Option<&Authentication> {
        self.config.as_ref()
    }

    /// The trailer for an own advert; none in a mode that does not sign.
    pub fn sign(&mut self, data: SignedData<'_>, now: WallTime) -> Option<Trailer> {
        let Authentication { keyring, mode, anti_replay } = self.config.as_ref()?;
        mode.signs().then(|| self.signer.sign(keyring, *anti_replay, data, now))
    }

    /// Verifies a received advert. Returns `Ok(None)` for an advert without a trailer in a mode that accepts it, and for all adverts
    /// if authentication is off.
    pub fn admit(
        &mut self,
        data: SignedData<'_>,
        trailer: Option<&Trailer>,
        now: WallTime,
    ) -> Result<Option<VerifiedAdvert>, AuthError> {
        let Some(Authentication { keyring, mode, anti_replay }) = &self.config else { return Ok(None) };
        match trailer {
            Some(trailer) => self.verifier.verify(keyring, *anti_replay, data, trailer, now).map(Some),
            None if mode.requires() => Err(AuthError::Missing),
            None => Ok(None),
        }
    }
}
