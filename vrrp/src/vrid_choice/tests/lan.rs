//! Random LANs: nodes of several addresses, strangers that come and go, and who does not hear whom. In the end each address has one
//! Active under a VRID of its own, and two only for moments.

use proptest::prelude::*;

use super::*;

const TICK: Duration = Duration::from_millis(100);
/// A Backup takes over when it has heard nothing for so many ticks.
const DOWN: u32 = 4;
/// So long an Active is still heard under a VRID that it has left.
const EMPTIED: Duration = Duration::from_secs(20);
/// After what happens last.
const CALM: Duration = Duration::from_mins(1);
/// Longest time that an address has two Actives while something happens.
const DOUBLED: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
struct Stranger {
    /// It has the VRID at this place of the order of the address of this number.
    of: usize,
    place: usize,
    from: f64,
    to: f64,
    /// The nodes that hear it.
    heard_by: Vec<bool>,
}

impl Stranger {
    fn vrid(&self) -> Vrid {
        Order::of(address(self.of)).iter().nth(self.place).unwrap()
    }
}

#[derive(Clone, Debug)]
struct Plan {
    /// The address of each node, and when it starts.
    nodes: Vec<(usize, f64)>,
    strangers: Vec<Stranger>,
    /// From when to when those nodes that are marked, and the others, hear only each other.
    partition: (f64, f64, Vec<bool>),
}

struct Node {
    address: IpAddr,
    source: IpAddr,
    starts: Time,
    choice: VridChoice,
    vrid: Option<Vrid>,
    role: Role,
    silent: u32,
    left: Option<(Vrid, Time)>,
    told: BTreeMap<(Vrid, IpAddr, bool), Time>,
}

#[derive(Clone, Copy)]
struct Advert {
    vrid: Vrid,
    source: IpAddr,
    /// None if it lists none.
    address: Option<IpAddr>,
}

fn address(number: usize) -> IpAddr {
    host(u8::try_from(200 + number).unwrap())
}

impl Node {
    fn new(number: usize, of: usize, starts: f64) -> Self {
        let (address, source) = (address(of), host(u8::try_from(number + 1).unwrap()));
        let starts = seconds(starts);
        Self {
            address,
            source,
            starts,
            choice: VridChoice::new(address, source, starts),
            vrid: None,
            role: Role::Initialize,
            silent: 0,
            left: None,
            told: BTreeMap::new(),
        }
    }

    fn adverts(&self, now: Time) -> Vec<Advert> {
        let own = self.vrid.filter(|_| self.role == Role::Active).map(|vrid| (vrid, Some(self.address)));
        let left = self.left.filter(|(_, until)| now < *until).map(|(vrid, _)| (vrid, None));
        let of = |(vrid, address)| Advert { vrid, source: self.source, address };
        own.into_iter().chain(left).map(of).collect()
    }

    fn hear(&mut self, advert: Advert, now: Time) {
        if now < self.starts || advert.source == self.source {
            return;
        }
        let is_ours = advert.address == Some(self.address);
        let follows = self.role == Role::Backup { active: Some(advert.source) };
        if Some(advert.vrid) == self.vrid && (is_ours || advert.address.is_none() && follows) {
            // Of two Actives the one with the higher source goes on.
            if self.role != Role::Active || advert.source > self.source {
                (self.role, self.silent) = (Role::Backup { active: Some(advert.source) }, 0);
            }
            return;
        }
        let last = self.told.get(&(advert.vrid, advert.source, is_ours));
        if last.is_some_and(|last| now.since(*last) < Duration::from_secs(1)) {
            return;
        }
        self.told.insert((advert.vrid, advert.source, is_ours), now);
        let listing = match advert.address {
            Some(_) if is_ours => Listing::Ours,
            Some(_) => Listing::Others,
            None => Listing::Nothing,
        };
        self.choice.hear(advert.vrid, advert.source, listing, now);
    }

    fn step(&mut self, now: Time) {
        if now < self.starts {
            return;
        }
        if let Decision::Use(vrid) = self.choice.decide(self.role, none, now)
            && self.vrid != Some(vrid)
        {
            match self.role {
                // The address is in service: it goes on without a pause.
                Role::Active => self.left = self.vrid.map(|vrid| (vrid, now + EMPTIED)),
                Role::Initialize | Role::Backup { .. } => {
                    (self.role, self.silent) = (Role::Backup { active: None }, 0);
                }
            }
            self.vrid = Some(vrid);
        }
        self.silent += 1;
        if matches!(self.role, Role::Backup { .. }) && self.silent > DOWN {
            self.role = Role::Active;
        }
    }
}

fn strangers(nodes: usize) -> impl Strategy<Value = Vec<Stranger>> {
    let heard_by = prop::collection::vec(prop::bool::weighted(0.8), nodes);
    let one = (0..4_usize, 0..3_usize, 0.0..30.0, 0.0..60.0, heard_by);
    let stranger =
        |(of, place, from, long, heard_by)| Stranger { of, place, from, to: from + long, heard_by };
    prop::collection::vec(one.prop_map(stranger), 0..4)
}

fn plans() -> impl Strategy<Value = Plan> {
    let starts = prop_oneof![Just(0.0), 0.0..8.0, 0.0..60.0];
    let nodes = prop::collection::vec((0..4_usize, starts), 1..9);
    nodes.prop_flat_map(|nodes| {
        let count = nodes.len();
        let parts = prop::collection::vec(any::<bool>(), count);
        let partition =
            (0.0..20.0, 0.0..40.0, parts).prop_map(|(from, long, parts)| (from, from + long, parts));
        let plan = move |(strangers, partition)| Plan { nodes: nodes.clone(), strangers, partition };
        (strangers(count), partition).prop_map(plan)
    })
}

/// A plan that is carried out.
struct Lan {
    plan: Plan,
    nodes: Vec<Node>,
    now: Time,
}

impl Lan {
    fn new(plan: Plan) -> Self {
        let nodes = plan.nodes.iter().enumerate().map(|(n, (of, starts))| Node::new(n, *of, *starts));
        Self { nodes: nodes.collect(), plan, now: START }
    }

    /// When nothing happens any more but that strangers go on which last until then.
    fn end(&self) -> Time {
        let starts = self.plan.nodes.iter().map(|(_, starts)| *starts);
        let strangers = self.plan.strangers.iter().flat_map(|stranger| [stranger.from, stranger.to]);
        seconds(starts.chain(strangers).chain([self.plan.partition.1]).fold(0.0, f64::max)) + CALM
    }

    fn tick(&mut self) {
        self.now = self.now + TICK;
        let now = self.now;
        for node in &mut self.nodes {
            node.step(now);
        }
        let (from, to, parts) = &self.plan.partition;
        let is_parted = seconds(*from) <= now && now < seconds(*to);
        let sent = self.nodes.iter().zip(parts);
        let sent: Vec<(Advert, bool)> = sent
            .flat_map(|(node, part)| node.adverts(now).into_iter().map(|advert| (advert, *part)))
            .collect();
        for (advert, from) in sent {
            let hearing = self.nodes.iter_mut().zip(parts).filter(|(_, part)| !is_parted || **part == from);
            hearing.for_each(|(node, _)| node.hear(advert, now));
        }
        for (n, stranger) in self.plan.strangers.iter().enumerate() {
            if now < seconds(stranger.from) || seconds(stranger.to) < now {
                continue;
            }
            let source = host(u8::try_from(100 + n).unwrap());
            let advert = Advert { vrid: stranger.vrid(), source, address: Some(host(99)) };
            let hearing = self.nodes.iter_mut().zip(&stranger.heard_by).filter(|(_, hears)| **hears);
            hearing.for_each(|(node, _)| node.hear(advert, now));
        }
    }

    fn members(&self, of: usize) -> Vec<&Node> {
        self.nodes.iter().filter(|node| node.address == address(of)).collect()
    }

    fn actives(&self, of: usize) -> usize {
        self.members(of).iter().filter(|node| node.role == Role::Active).count()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))] // 11 ms each

    // shows: field-reports F-68
    #[test]
    fn each_address_comes_to_one_active_under_a_vrid_of_its_own(plan in plans()) {
        let mut lan = Lan::new(plan);
        let end = lan.end();
        let mut doubled = [Duration::ZERO; 4];
        let parted = seconds(lan.plan.partition.0)..seconds(lan.plan.partition.1);
        while lan.now < end {
            lan.tick();
            if parted.contains(&lan.now) {
                doubled = [Duration::ZERO; 4];
                continue;
            }
            for (of, lasts) in doubled.iter_mut().enumerate() {
                *lasts = if lan.actives(of) > 1 { *lasts + TICK } else { Duration::ZERO };
                prop_assert!(*lasts < DOUBLED, "two Actives of {} for {lasts:?}", address(of));
            }
        }
        for of in 0..4 {
            let members = lan.members(of);
            let Some(first) = members.first() else { continue };
            let vrids: Vec<_> = members.iter().map(|node| node.vrid).collect();
            prop_assert!(vrids.iter().all(|vrid| *vrid == first.vrid), "{vrids:?}");
            prop_assert_eq!(lan.actives(of), 1);
            let mut others = lan.nodes.iter().filter(|node| node.address != address(of));
            prop_assert!(others.all(|node| node.vrid != first.vrid), "the VRID of another address");
        }
    }

    /// They are there for longer than the test.
    #[test]
    fn no_address_keeps_the_vrid_of_a_stranger_that_all_its_nodes_hear(mut plan in plans()) {
        for stranger in &mut plan.strangers {
            stranger.heard_by.fill(true);
        }
        let mut lan = Lan::new(plan);
        let end = lan.end() + CALM;
        for stranger in &mut lan.plan.strangers {
            stranger.to = 1e6;
        }
        while lan.now < end {
            lan.tick();
        }
        for stranger in &lan.plan.strangers {
            prop_assert!(lan.nodes.iter().all(|node| node.vrid != Some(stranger.vrid())), "{stranger:?}");
        }
    }
}
