//! What may go wrong between a client and the API server, as a test orders it.

use std::collections::BTreeMap;

/// When a client is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Its write does not arrive.
    Before,
    /// Its write is carried out, and the answer lost.
    After,
}

/// How often, of 100 requests, each thing happens to a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weather {
    /// Answered with 409, 429, 500 or 503 instead of being carried out.
    pub refused: u64,
    /// Carried out (if it is a write), and answered with 500.
    pub lost: u64,
    /// Longest delay before it arrives and before it is answered, in milliseconds.
    pub delay_ms: u64,
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    Refused(u16),
    Lost,
}

/// What an API server, or the way to it, can do to one request instead of answering it as it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
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
    Told(u16),
    /// A watch shows an object of nonsense, then what is right; anything else is answered with nonsense.
    Nonsense,
}

impl Mishap {
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
        Self::Told(410),
        Self::Told(500),
        Self::Nonsense,
    ];

    /// Ways in which the answer to a write that was carried out is lost.
    const LOST: [Self; 4] = [Self::Reset, Self::Silence, Self::Status(500), Self::Garbage];

    /// All that can happen to one call, as [`ApiServer::requests`](super::apiserver::ApiServer::requests) names it.
    pub fn of_call(call: &str) -> impl Iterator<Item = (Self, Carried)> + use<> {
        let writes = !call.starts_with("GET");
        let lost = Self::LOST.into_iter().filter(move |_| writes).map(|mishap| (mishap, Carried::Out));
        Self::ALL.into_iter().map(|mishap| (mishap, Carried::Not)).chain(lost)
    }
}

/// When a mishap happens to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// It is not carried out.
    Not,
    /// It is carried out, and only the answer goes wrong.
    Out,
}

/// A repeatable sequence of numbers (SplitMix64).
#[derive(Debug, Clone, Default)]
pub struct Dice(u64);

impl Dice {
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

/// The orders of a test, and who is cut off already.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) weather: Weather,
    pub(super) dice: Dice,
    /// Writes still to come, and what happens at the last of them, by client.
    cuts: BTreeMap<u64, (usize, Cut)>,
    cut_off: Vec<u64>,
    /// By number of the request.
    mishaps: BTreeMap<usize, (Mishap, Carried)>,
    /// How often, of 100 requests, any of them happens.
    mishap_percent: u64,
}

impl Faults {
    pub(super) fn cut(&mut self, client: u64, at: usize, cut: Cut) {
        self.cuts.insert(client, (at, cut));
    }

    pub(super) fn cut_off_now(&mut self, client: u64) {
        self.cut_off.push(client);
    }

    pub(super) fn is_cut_off(&self, client: u64) -> bool {
        self.cut_off.contains(&client)
    }

    /// A write of `client` arrives. `Some`: it is the one at which the client is cut off.
    pub(super) fn write(&mut self, client: u64) -> Option<Cut> {
        let (left, cut) = self.cuts.get_mut(&client)?;
        if *left > 0 {
            *left -= 1;
            return None;
        }
        let cut = *cut;
        self.cut_off.push(client);
        Some(cut)
    }

    pub(super) fn mishap_at(&mut self, request: usize, mishap: Mishap, carried: Carried) {
        self.mishaps.insert(request, (mishap, carried));
    }

    pub(super) fn mishaps(&mut self, percent: u64, seed: u64) {
        (self.mishap_percent, self.dice) = (percent, Dice::new(seed));
    }

    /// What happens to the request of this number.
    pub(super) fn mishap(&mut self, request: usize) -> Option<(Mishap, Carried)> {
        if let Some(ordered) = self.mishaps.remove(&request) {
            return Some(ordered);
        }
        if self.mishap_percent == 0 || self.dice.below(100) >= self.mishap_percent {
            return None;
        }
        let which = usize::try_from(self.dice.below(Mishap::ALL.len() as u64)).unwrap_or(0);
        let carried = if self.dice.below(2) == 0 { Carried::Not } else { Carried::Out };
        Some((Mishap::ALL[which], carried))
    }

    pub(super) fn fate(&mut self) -> Fate {
        const REFUSALS: [u16; 4] = [409, 429, 500, 503];
        let Weather { refused, lost, .. } = self.weather;
        if refused + lost == 0 {
            return Fate::Answered;
        }
        match self.dice.below(100) {
            roll if roll < refused => {
                let which = usize::try_from(self.dice.below(4)).unwrap_or(0);
                Fate::Refused(REFUSALS[which])
            }
            roll if roll < refused + lost => Fate::Lost,
            _ => Fate::Answered,
        }
    }
}
