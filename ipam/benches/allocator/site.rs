//! An allocator with a certain number of addresses in use, and the operations to time on it.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use windlass_ipam::{Adopted, Allocator, Families, Family, Moment, Plan, Pool, Released, Request, Terms};

/// Operations of one batch at most, so that the number in use stays about what it is said to be.
const BATCH: u64 = 1_000;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Plan and commit, for an owner that has nothing.
    Allocate,
    /// The same where every second address of the lower half is free.
    AllocateFragmented,
    /// Plan, for an owner that has what it asks for: what happens most.
    Keep,
    /// Release into quarantine.
    Release,
    /// End of the quarantine.
    Lift,
    /// Adopt, as after a restart.
    Adopt,
}

impl Operation {
    pub(crate) const ALL: [Self; 6] =
        [Self::Allocate, Self::AllocateFragmented, Self::Keep, Self::Release, Self::Lift, Self::Adopt];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::AllocateFragmented => "allocate-fragmented",
            Self::Keep => "keep",
            Self::Release => "release",
            Self::Lift => "lift",
            Self::Adopt => "adopt",
        }
    }

    /// Whether it is measured where free and used addresses alternate.
    pub(crate) const fn is_fragmented(self) -> bool {
        match self {
            Self::AllocateFragmented => true,
            Self::Allocate | Self::Keep | Self::Release | Self::Lift | Self::Adopt => false,
        }
    }
}

/// Time that this process has used a core: what else runs on the machine does not count.
pub(crate) fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap().into()
}

/// Time on a core since `begin`.
pub(crate) fn since(begin: Duration) -> Duration {
    cpu_time().saturating_sub(begin)
}

/// An allocator in use.
pub(crate) struct Site {
    pub(crate) allocator: Allocator<u64>,
    pub(crate) request: Request,
    /// Who has what.
    pub(crate) held: Vec<(u64, IpAddr)>,
    pub(crate) random: Random,
    next_owner: u64,
}

/// A small generator (xorshift): the same numbers in each run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

impl Site {
    /// `in_use` addresses in use, of a /8 or a /64. If fragmented, every second one of the first `in_use` is free.
    pub(crate) fn new(family: Family, in_use: u64, fragmented: bool) -> Self {
        let range = match family {
            Family::V4 => "10.0.0.0/8",
            Family::V6 => "2001:db8::/64",
        };
        let pool = Pool::new("pool", [range.parse().unwrap()]);
        let mut site = Self {
            allocator: Allocator::new([pool]),
            request: Request::any(Families::Single(family), "default"),
            held: Vec::new(),
            random: Random(0x9e37_79b9_7f4a_7c15),
            next_owner: 0,
        };
        let all = if fragmented { in_use + in_use / 2 } else { in_use };
        for _ in 0..all {
            let plan = site.allocate();
            site.note(&plan);
        }
        if fragmented {
            let lower = usize::try_from(in_use).unwrap();
            let freed: Vec<_> = site.held.iter().copied().take(lower).step_by(2).collect();
            for (owner, address) in freed {
                assert!(site.allocator.disown(address, &owner));
            }
            let mut index = 0;
            site.held.retain(|_| {
                index += 1;
                index > lower || index % 2 == 0
            });
        }
        // As Services come and go: in no order.
        for index in (1..site.held.len()).rev() {
            let other = site.random.below(index + 1);
            site.held.swap(index, other);
        }
        site
    }

    /// Gives a new owner an address.
    pub(crate) fn allocate(&mut self) -> Plan {
        self.next_owner += 1;
        // Spread over the order of the names, as Services are.
        let owner = self.next_owner.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.allocator.prepare(&owner, &self.request).unwrap().commit()
    }

    /// The owner that [`Self::allocate`] gave the plan to.
    pub(crate) const fn last_owner(&self) -> u64 {
        self.next_owner.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn note(&mut self, plan: &Plan) {
        self.held.push((self.last_owner(), plan.addresses[0].address));
    }

    /// Some of those that hold something.
    fn some(&mut self, number: u64) -> Vec<(u64, IpAddr)> {
        let start = self.random.below(self.held.len());
        let number = usize::try_from(number).unwrap().min(self.held.len());
        self.held.iter().copied().cycle().skip(start).take(number).collect()
    }

    /// Time that so many operations take.
    pub(crate) fn time(&mut self, operation: Operation, operations: u64) -> Duration {
        let (mut left, mut time) = (operations, Duration::ZERO);
        while left > 0 {
            let (done, took) = self.batch(operation, left.min(BATCH));
            time += took;
            left -= done;
        }
        time
    }

    /// Does up to so many operations, and undoes them. Says how many, and how long they took.
    fn batch(&mut self, operation: Operation, number: u64) -> (u64, Duration) {
        let terms = Terms::alone("default");
        match operation {
            Operation::Allocate | Operation::AllocateFragmented => {
                let number = number.min(self.held.len() as u64);
                let mut given = Vec::with_capacity(usize::try_from(number).unwrap());
                let begin = cpu_time();
                for _ in 0..number {
                    let plan = self.allocate();
                    given.push((self.last_owner(), plan.addresses[0].address));
                }
                let time = since(begin);
                for (owner, address) in given {
                    assert!(self.allocator.disown(address, &owner));
                }
                (number, time)
            }
            Operation::Keep => {
                let some = self.some(number);
                let begin = cpu_time();
                for (owner, _) in &some {
                    black_box(self.allocator.plan(owner, &self.request).unwrap());
                }
                (some.len() as u64, since(begin))
            }
            Operation::Release => {
                let some = self.some(number);
                let begin = cpu_time();
                for (owner, address) in &some {
                    let released = self.allocator.release(*address, owner, Moment(0));
                    assert!(matches!(released, Released::Quarantined { .. }));
                }
                let time = since(begin);
                for (owner, address) in &some {
                    self.allocator.adopt_together(*address, owner, &terms);
                }
                (some.len() as u64, time)
            }
            Operation::Lift => {
                let some = self.some(number);
                for (owner, address) in &some {
                    self.allocator.release(*address, owner, Moment(0));
                }
                let begin = cpu_time();
                for (_, address) in &some {
                    assert!(self.allocator.end_quarantine(*address));
                }
                let time = since(begin);
                for (owner, address) in &some {
                    self.allocator.adopt_together(*address, owner, &terms);
                }
                (some.len() as u64, time)
            }
            Operation::Adopt => {
                let some = self.some(number);
                for (owner, address) in &some {
                    assert!(self.allocator.disown(*address, owner));
                }
                let begin = cpu_time();
                for (owner, address) in &some {
                    assert_eq!(self.allocator.adopt(*address, owner, &terms), Adopted::New);
                }
                (some.len() as u64, since(begin))
            }
        }
    }
}
