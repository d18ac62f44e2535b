use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::connections::{Connection, ConnectionKey, Inserted, Transport};
use crate::lab::{Host, require_root};

const LAST_ACK: u8 = 6;

/// Entry of a connection to this VIP, as a kernel lists it.
fn entry(vip: [u8; 4], protocol: u8, zone: u16) -> Vec<u8> {
    let addresses = Attributes::new().bytes(1, &[192, 0, 2, 3]).bytes(2, &vip);
    let ports = Attributes::new().bytes(1, &[protocol]).bytes(2, &[0x9c, 0x40]).bytes(3, &[0, 80]);
    let tuple = Attributes::new().nest(1, &addresses).nest(2, &ports);
    let state = Attributes::new().nest(1, &Attributes::new().bytes(1, &[LAST_ACK]));
    let entry = Attributes::new().nest(1, &tuple).number(STATUS, 0x2e).nest(4, &state).number(MARK, 0x10);
    entry.number(ID, 77).bytes(ZONE, &zone.to_be_bytes()).as_bytes().to_vec()
}

#[test]
fn an_entry_is_read_where_it_lies() {
    let bytes = entry([192, 0, 2, 50], 6, 0);
    let listed = Listed(&bytes);
    assert_eq!(listed.destination(), Some([192, 0, 2, 50].into()));
    assert_eq!((listed.protocol(), listed.tcp_state()), (Some(6), Some(LAST_ACK)));
    assert_eq!((listed.status(), listed.mark()), (0x2e, 0x10));
    assert!(listed.is_of_default_zone() && !Listed(&entry([192, 0, 2, 50], 6, 7)).is_of_default_zone());
    let v6 = Attributes::new().bytes(4, &"2001:db8::50".parse::<std::net::Ipv6Addr>().unwrap().octets());
    let v6 = Attributes::new().nest(1, &Attributes::new().nest(1, &v6));
    assert_eq!(Listed(v6.as_bytes()).destination(), Some("2001:db8::50".parse().unwrap()));
    let nothing = Listed(&[0]);
    assert_eq!((nothing.destination(), nothing.protocol(), nothing.tcp_state()), (None, None, None));
}

#[test]
fn an_entry_is_removed_by_its_number_too() {
    let bytes = entry([192, 0, 2, 50], 6, 0);
    let (operation, named) = Listed(&bytes).removal(Family::V4).unwrap();
    assert_eq!(operation, Operation::DeleteConnection(2));
    assert_eq!(attributes::find(named.as_bytes(), TUPLE_ORIGINAL), attributes::find(&bytes, TUPLE_ORIGINAL));
    assert_eq!(attributes::find_number(named.as_bytes(), ID), Some(77));
    let without = Attributes::new().nest(1, &Attributes::new());
    assert_eq!(Listed(without.as_bytes()).removal(Family::V4), None, "it would be whichever has these ends");
}

/// Kernel that lists all it has, whatever it is asked for, and refuses filters with what it does not know.
struct Kernel {
    entries: Vec<Vec<u8>>,
    refuses: fn(&Attributes) -> Option<i32>,
    lists: usize,
}

impl Lister for Kernel {
    fn list(
        &mut self,
        _: Family,
        filter: &Attributes,
        told: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.lists += 1;
        if let Some(errno) = (self.refuses)(filter) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let _ = self.entries.iter().try_for_each(|entry| told(entry));
        Ok(())
    }
}

/// Error of a list with this filter.
type Refuses = fn(&Attributes) -> Option<i32>;

#[test]
fn what_a_kernel_lists_is_filtered_again_whether_it_filters_ignores_or_refuses() {
    let entries = vec![
        entry([192, 0, 2, 50], 6, 0),
        entry([192, 0, 2, 51], 6, 0),
        entry([192, 0, 2, 50], 17, 0),
        entry([192, 0, 2, 50], 6, 7),
    ];
    let selection = Selection::of(Family::V4).with_protocol(6).to([192, 0, 2, 50].into());
    let has = |filter: &Attributes, kind| attributes::find(filter.as_bytes(), kind).is_some();
    assert!(has(&selection.filters()[0], FILTER) && has(&selection.filters()[0], ZONE));
    let refusals: [(&str, usize, Refuses); 4] = [
        ("ignores", 1, |_| None),
        ("has no zones", 2, |filter| attributes::find(filter.as_bytes(), ZONE).map(|_| libc::EOPNOTSUPP)),
        ("refuses filters", 3, |filter| (!filter.is_empty()).then_some(libc::EINVAL)),
        ("refuses all", 3, |_| Some(libc::EINVAL)),
    ];
    for (what, lists, refuses) in refusals {
        let mut kernel = Kernel { entries: entries.clone(), refuses, lists: 0 };
        let mut shown = 0;
        let outcome = walk(&mut kernel, &selection, selection.filters(), |_| {
            shown += 1;
            ControlFlow::Continue(())
        });
        assert_eq!(
            (outcome.is_ok(), shown),
            if what == "refuses all" { (false, 0) } else { (true, 1) },
            "{what}"
        );
        assert_eq!(kernel.lists, lists, "{what}");
    }
}

#[test]
fn a_list_that_changes_each_time_ends_after_some_tries() {
    let mut kernel = Kernel { entries: Vec::new(), refuses: |_| Some(libc::EINTR), lists: 0 };
    let all = Selection::of(Family::V4);
    let outcome = walk(&mut kernel, &all, all.filters(), |_| ControlFlow::Continue(()));
    assert!(matches!(outcome, Err(TrackingError::Unsteady { .. })), "{outcome:?}");
    assert_eq!(kernel.lists, TRIES as usize);
}

/// Connection to this VIP with this number.
fn connection(vip: IpAddr, number: u16) -> Connection {
    let [client, backend]: [IpAddr; 2] = if vip.is_ipv4() {
        [[198, 18, 0, 1].into(), [192, 0, 2, 4].into()]
    } else {
        ["2001:db8::3".parse().unwrap(), "2001:db8::4".parse().unwrap()]
    };
    let key = ConnectionKey {
        transport: Transport::Tcp,
        client: (client, 1024 + number).into(),
        vip: (vip, 80).into(),
    };
    Connection { key, backend: (backend, 8080).into(), source: (vip, 1024 + number).into() }
}

/// In both families, with the filters of this kernel and without any.
#[test]
fn connections_are_removed_in_one_walk_which_holds_few_of_them() {
    const EACH: u16 = 5000;
    if !require_root() {
        return;
    }
    Host::new().run(|| {
        let vips: [IpAddr; 4] =
            ["192.0.2.50", "192.0.2.51", "2001:db8::50", "2001:db8::51"].map(|vip| vip.parse().unwrap());
        let mut tracking = Tracking::open().unwrap();
        let begun: Vec<_> =
            vips.iter().flat_map(|vip| (0..EACH).map(|number| connection(*vip, number))).collect();
        let outcomes = tracking.insert(&begun, Duration::from_secs(100)).unwrap();
        assert!(outcomes.iter().all(|outcome| *outcome == Inserted::New));
        let left = |tracking: &mut Tracking| {
            let mut left = [0; 4];
            for family in [Family::V4, Family::V6] {
                let all: BTreeSet<IpAddr> = vips.into();
                let place = |one: &Connection| vips.iter().position(|vip| *vip == one.key.vip.ip()).unwrap();
                tracking.list(family, &all, |one, _| left[place(&one)] += 1).unwrap();
            }
            left
        };
        assert_eq!(left(&mut tracking), [EACH; 4]);
        for vip in [vips[0], vips[2]] {
            let selection = Selection::of(Family::of(vip)).with_protocol(6);
            let to_vip = |listed: &Listed<'_>| listed.destination() == Some(vip);
            let mut removed = 0;
            let used = allocation_counter::measure(|| {
                removed = tracking.remove_each(&selection, to_vip).unwrap();
            });
            assert_eq!(removed, usize::from(EACH), "{vip}");
            assert!(used.bytes_max < 400_000, "{used:?}");
        }
        assert_eq!(left(&mut tracking), [0, EACH, 0, EACH]);
        // A filter that this kernel has not heard of, and none.
        let unknown = Attributes::new().nest(FILTER, &Attributes::new().bytes(1, &[0xff; 4]));
        let mut shown = 0;
        let only = Selection::of(Family::V4).to(vips[1]);
        walk(&mut tracking.lister, &only, [unknown, Attributes::new()], |_| {
            shown += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(shown, EACH);
        let mut seen = 0;
        tracking
            .for_each(&only, |_| {
                seen += 1;
                if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert_eq!(seen, 3, "the rest is not read");
    });
}

/// What an old kernel may ignore, this one obeys: each entry that it lists is one that was asked for.
#[test]
fn this_kernel_filters_what_it_is_asked_for() {
    if !require_root() {
        return;
    }
    Host::new().run(|| {
        let [vip, other]: [IpAddr; 2] = [[192, 0, 2, 50].into(), [192, 0, 2, 51].into()];
        let mut tracking = Tracking::open().unwrap();
        let udp = |mut one: Connection| {
            one.key.transport = Transport::Udp;
            one
        };
        let begun = [connection(vip, 1), connection(other, 2), udp(connection(vip, 3))];
        tracking.insert(&begun, Duration::from_secs(100)).unwrap();
        let listed = |selection: Selection| {
            let mut count = 0;
            let mut told = |_: &[u8]| {
                count += 1;
                ControlFlow::Continue(())
            };
            NetfilterSocket::open()
                .unwrap()
                .list(selection.family, &selection.filter(true), &mut told)
                .unwrap();
            count
        };
        let all = Selection::of(Family::V4);
        assert_eq!(listed(all), 3);
        assert_eq!(listed(all.with_protocol(6)), 2);
        assert_eq!(listed(all.to(vip)), 2);
        assert_eq!(listed(all.to(vip).with_protocol(6)), 1);
        assert_eq!(listed(all.with_mark(7, 0xf)), 0);
        assert_eq!(listed(all.with_mark(0, 0xf)), 3);
        assert_eq!(listed(all.with_status(1 << 2)), 3, "assured");
        assert_eq!(listed(all.with_status(1 << 6)), 0, "sequence numbers adjusted");
        assert_eq!(listed(Selection::of(Family::V6).with_protocol(6)), 0);
    });
}
