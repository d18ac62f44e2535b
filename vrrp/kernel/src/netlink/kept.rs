//! A route socket for occasional requests.

use super::{NetlinkError, RouteSocket};

/// Opened when it is first needed, and anew after a failure.
#[derive(Default)]
pub struct KeptRouteSocket(Option<RouteSocket>);

impl KeptRouteSocket {
    /// Runs `act` with the socket.
    pub fn with<T>(
        &mut self,
        act: impl FnOnce(&mut RouteSocket) -> Result<T, NetlinkError>,
    ) -> Result<T, NetlinkError> {
        let mut route = match self.0.take() {
            Some(route) => route,
            None => RouteSocket::open()?,
        };
        let outcome = act(&mut route);
        // After a failure of the exchange answers may be left over.
        if outcome.is_ok() {
            self.0 = Some(route);
        }
        outcome
    }
}
