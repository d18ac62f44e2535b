use windlass_vrrp::replication::ConnectionKey;

use super::*;

const NOTICE: Duration = Duration::from_secs(10);
const WEB: ProtocolPort = ProtocolPort { protocol: Protocol::Tcp, port: 80 };
const DNS: ProtocolPort = ProtocolPort { protocol: Protocol::Udp, port: 53 };

fn at(seconds: u64) -> Time {
    Time::default() + Duration::from_secs(seconds)
}

fn vip() -> IpAddr {
    "192.0.2.50".parse().unwrap()
}

/// The VIP with these owners and ports, open to this range.
fn owned(owners: &[u64], ports: &[ProtocolPort], sources: Option<&str>) -> Arc<Restrictions> {
    let mut restrictions = Restrictions::default();
    restrictions.owned_by(vip(), owners.iter().copied());
    restrictions.only_ports(vip(), ports.iter().copied());
    if let Some(range) = sources {
        restrictions.restrict(vip(), ports.iter().copied(), [range.parse().unwrap()]);
    }
    Arc::new(restrictions)
}

fn connection(transport: Transport, client: &str, port: u16, backend: u8) -> Connection {
    let client: SocketAddr = format!("{client}:40000").parse().unwrap();
    let key = ConnectionKey { transport, client, vip: SocketAddr::new(vip(), port) };
    Connection { key, backend: SocketAddr::from(([10, 244, 1, backend], 8080)), source: client }
}

fn web(backend: u8) -> Connection {
    connection(Transport::Tcp, "198.51.100.7", 80, backend)
}

/// The plan after these restrictions, one a second.
fn plan(history: &[Arc<Restrictions>]) -> Plan {
    let mut plan = Plan::new(NOTICE);
    for (second, restrictions) in (1..).zip(history) {
        plan.follow(Arc::clone(restrictions), at(second));
    }
    plan
}

fn refuses(plan: &Plan) -> bool {
    plan.restrictions().ended().contains(&vip())
}

/// Words, history, due, ends and refused, as the table below has them.
type Case<'a> = (&'a str, &'a [&'a Arc<Restrictions>], Option<u64>, [bool; 2], bool);

#[test]
fn what_ends_and_when_follows_from_what_changed() {
    let both = [WEB, DNS];
    let (first, second) = (owned(&[1], &both, None), owned(&[2], &both, None));
    let (shared, released) = (owned(&[1, 2], &both, None), owned(&[], &both, None));
    let gone = Arc::new(Restrictions::default());
    let dns = connection(Transport::Udp, "198.51.100.7", 53, 1);
    // The history, the seconds after the last change at which entries are removed, and whether TCP 80 and UDP 53 end then, and whether
    // the guard refuses them meanwhile.
    let table: [Case<'_>; 11] = [
        ("owned as before", &[&first, &first], None, [false; 2], false),
        ("another owner joins", &[&first, &shared], None, [false; 2], false),
        ("one of two owners leaves", &[&shared, &second], None, [false; 2], false),
        ("it goes into quarantine", &[&first, &released], Some(10), [true; 2], true),
        ("its object is deleted at once", &[&first, &gone], Some(10), [true; 2], true),
        ("it comes out of quarantine to nobody", &[&first, &released, &gone], Some(9), [true; 2], true),
        ("it is in quarantine when this process starts", &[&released], Some(10), [true; 2], true),
        ("another owns it", &[&first, &second], Some(0), [true; 2], false),
        ("another owns it after a quarantine", &[&first, &released, &second], Some(0), [true; 2], false),
        ("the same owner gets it back", &[&first, &released, &first], Some(10), [false; 2], false),
        ("a port goes", &[&first, &owned(&[1], &[WEB], None)], Some(10), [false, true], false),
    ];
    for (what, history, due, ends, refused) in table {
        let history: Vec<_> = history.iter().map(|one| Arc::clone(one)).collect();
        let mut plan = Plan::new(NOTICE);
        // What it finds at the start it looks at once.
        let (initial, changes) = history.split_first().unwrap();
        plan.follow(Arc::clone(initial), at(0));
        if !changes.is_empty() {
            plan.pending.clear();
        }
        for (second, restrictions) in (1..).zip(changes) {
            plan.follow(Arc::clone(restrictions), at(second));
        }
        let last = u64::try_from(changes.len()).unwrap();
        assert_eq!(plan.due(), due.map(|due| at(last + due)), "{what}");
        assert_eq!(refuses(&plan), refused, "{what}");
        let pass = plan.take(at(1000));
        assert_eq!([pass.ends(&web(1)), pass.ends(&dns)], ends, "{what}");
    }
}

#[test]
fn a_client_that_is_let_in_no_more_ends_and_others_go_on() {
    let plan = plan(&[owned(&[1], &[WEB], None), owned(&[1], &[WEB], Some("198.51.100.0/24"))]);
    let pass = plan.take(at(12));
    let from = |client| pass.ends(&connection(Transport::Tcp, client, 80, 1));
    assert_eq!([from("198.51.100.7"), from("203.0.113.7")], [false, true]);
    let wider = [owned(&[1], &[WEB], Some("198.51.100.0/25")), owned(&[1], &[WEB], None)];
    let mut plan = plan_after_start(&wider[0]);
    plan.follow(Arc::clone(&wider[1]), at(1));
    assert_eq!(plan.due(), None, "who is let in is never cut off");
}

/// A plan that has looked at what it found at the start.
fn plan_after_start(restrictions: &Arc<Restrictions>) -> Plan {
    let mut plan = plan(&[Arc::clone(restrictions)]);
    let pass = plan.take(at(1000));
    plan.done(pass, at(1000));
    assert_eq!(plan.due(), None);
    plan
}

#[test]
fn connections_to_the_former_owners_backends_end_again_and_the_new_owners_go_on() {
    let mut plan = plan(&[owned(&[1], &[WEB], None), owned(&[2], &[WEB], None)]);
    let mut pass = plan.take(at(2));
    assert!(pass.ends(&web(1)));
    pass.note(&web(1));
    plan.done(pass, at(2));
    for due in [12, 102] {
        assert_eq!(plan.due(), Some(at(due)));
        let pass = plan.take(at(due));
        assert_eq!([pass.ends(&web(1)), pass.ends(&web(2))], [true, false], "{due}");
        plan.done(pass, at(due));
    }
    assert_eq!(plan.due(), None);
}

#[test]
fn what_changes_during_a_pass_is_looked_at_again() {
    let mut plan = plan(&[owned(&[1], &[WEB], None), owned(&[], &[WEB], None)]);
    let pass = plan.take(at(12));
    plan.follow(owned(&[2], &[WEB], None), at(12));
    plan.done(pass, at(13));
    assert_eq!(plan.due(), Some(at(12)), "the other owner's claim is due");
    assert!(!refuses(&plan));
}

#[test]
fn a_pass_that_failed_comes_again_and_the_guard_refuses_until_then() {
    let mut plan = plan(&[owned(&[1], &[WEB], None), owned(&[], &[WEB], None)]);
    let pass = plan.take(at(12));
    plan.retry(pass, at(22));
    assert_eq!((plan.due(), refuses(&plan)), (Some(at(22)), true));
    let pass = plan.take(at(22));
    plan.done(pass, at(22));
    assert_eq!((plan.due(), refuses(&plan)), (None, false));
}

#[test]
fn a_pass_takes_a_bounded_number_of_entries_and_the_rest_follows_at_once() {
    let mut plan = plan(&[owned(&[1], &[WEB], None), owned(&[], &[WEB], None)]);
    let mut pass = plan.take(at(12));
    for number in 0..MOST_ENTRIES {
        assert!(!pass.is_full());
        pass.note(&web(u8::try_from(number % 250).unwrap()));
    }
    assert!(pass.is_full());
    plan.done(pass, at(12));
    assert_eq!((plan.due(), refuses(&plan)), (Some(at(12)), true));
}
