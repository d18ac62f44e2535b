//! Faults between a client and the API server, as a test orders them.

use std::collections::BTreeMap;

/// Moment at which a client is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disconnect {
    /// Its write does not arrive.
    Before,
    /// Its write is carried out, and the answer lost.
    After,
}

/// Percentages of the requests that each fault hits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// Answered with 409, 429, 500 or 503 instead of being carried out.
    pub refused: u64,
    /// Carried out (if it is a write), and answered with 500.
    pub lost: u64,
    /// Longest delay before it arrives and before it is answered, in milliseconds.
    pub delay_ms: u64,
}

/// Delivery of one request under [`FaultRates`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Answered,
    Refused(u16),
    Lost,
}

/// Fault of an API server, or of the way to it, in place of the proper answer to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It answers with this status code.
    Status(u16),
    /// It answers with 429, and asks to be left alone for so many seconds.
    TooMany(u32),
    /// The connection breaks.
    Reset,
    /// No answer ever comes.
    Silence,
    /// It answers 200 with what is no JSON.
    Garbage,
    /// It answers 200 with nothing.
    Empty,
    /// It answers 200 with the JSON of something else.
    Other,
    /// A watch shows an error with this code, anything else is answered with it.
    ErrorEvent(u16),
    /// A watch shows an object of nonsense, then what is right; anything else is answered with nonsense.
    Nonsense,
}

impl Fault {
    /// One of each kind.
    pub const ALL: [Self; 15] = [
        Self::Status(403),
        Self::Status(409),
        Self::Status(410),
        Self::Status(422),
        Self::Status(500),
        Self::Status(503),
        Self::TooMany(7),
        Self::Reset,
        Self::Silence,
        Self::Garbage,
        Self::Empty,
        Self::Other,
        Self::ErrorEvent(410),
        Self::ErrorEvent(500),
        Self::Nonsense,
    ];

    /// Ways in which the answer to a write that was carried out is lost.
    const LOST: [Self; 4] = [Self::Reset, Self::Silence, Self::Status(500), Self::Garbage];

    /// All that can happen to one call, as [`ApiServer::requests`](super::apiserver::ApiServer::requests) names it.
    pub fn of_call(call: &str) -> impl Iterator<Item = (Self, Executed)> + use<> {
        let writes = !call.starts_with("GET");
        let lost = Self::LOST.into_iter().filter(move |_| writes).map(|fault| (fault, Executed::Yes));
        Self::ALL.into_iter().map(|fault| (fault, Executed::No)).chain(lost)
    }
}

/// Fate of a write that a fault hits: carried out or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executed {
    /// It is not carried out.
    No,
    /// It is carried out, and only the answer goes wrong.
    Yes,
}

/// A repeatable sequence of numbers (SplitMix64).
#[derive(Debug, Clone, Default)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, below `end` (0 if `end` is 0).
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).checked_rem(end).unwrap_or(0)
    }
}

/// The faults that a test orders, and which clients are cut off already.
#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    pub(super) fault_rates: FaultRates,
    pub(super) random: Random,
    /// Writes still to come, and what happens at the last of them, by client.
    cuts: BTreeMap<u64, (usize, Disconnect)>,
    cut_off: Vec<u64>,
    /// By number of the request.
    faults: BTreeMap<usize, (Fault, Executed)>,
    /// Percentage of the requests that a random fault hits.
    fault_percent: u64,
}

impl FaultPlan {
    pub(super) fn cut(&mut self, client: u64, at: usize, cut: Disconnect) {
        self.cuts.insert(client, (at, cut));
    }

    pub(super) fn cut_off_now(&mut self, client: u64) {
        self.cut_off.push(client);
    }

    pub(super) fn is_cut_off(&self, client: u64) -> bool {
        self.cut_off.contains(&client)
    }

    /// A write of `client` arrives. `Some`: it is the one at which the client is cut off.
    pub(super) fn write(&mut self, client: u64) -> Option<Disconnect> {
        let (left, cut) = self.cuts.get_mut(&client)?;
        if *left > 0 {
            *left -= 1;
            return None;
        }
        let cut = *cut;
        self.cut_off.push(client);
        Some(cut)
    }

    pub(super) fn fault_at(&mut self, request: usize, fault: Fault, executed: Executed) {
        self.faults.insert(request, (fault, executed));
    }

    pub(super) fn set_random_faults(&mut self, percent: u64, seed: u64) {
        (self.fault_percent, self.random) = (percent, Random::new(seed));
    }

    /// Returns the fault of the request with this number, if it has one.
    pub(super) fn next_fault(&mut self, request: usize) -> Option<(Fault, Executed)> {
        if let Some(ordered) = self.faults.remove(&request) {
            return Some(ordered);
        }
        if self.fault_percent == 0 || self.random.below(100) >= self.fault_percent {
            return None;
        }
        let which = usize::try_from(self.random.below(Fault::ALL.len() as u64)).unwrap_or(0);
        let executed = if self.random.below(2) == 0 { Executed::No } else { Executed::Yes };
        Some((Fault::ALL[which], executed))
    }

    pub(super) fn next_delivery(&mut self) -> Delivery {
        const REFUSALS: [u16; 4] = [409, 429, 500, 503];
        let FaultRates { refused, lost, .. } = self.fault_rates;
        if refused + lost == 0 {
            return Delivery::Answered;
        }
        match self.random.below(100) {
            roll if roll < refused => {
                let which = usize::try_from(self.random.below(4)).unwrap_or(0);
                Delivery::Refused(REFUSALS[which])
            }
            roll if roll < refused + lost => Delivery::Lost,
            _ => Delivery::Answered,
        }
    }
}
