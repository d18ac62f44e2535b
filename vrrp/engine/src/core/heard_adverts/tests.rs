use super::*;

const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

fn vips(octets: std::ops::Range<u8>) -> BTreeSet<IpAddr> {
    octets.map(|octet| IpAddr::from([192, 0, 2, octet])).collect()
}

fn hear(heard: &mut HeardAdverts, priority: Option<u8>, listed: &BTreeSet<IpAddr>) -> bool {
    heard.hear(ONE, priority.and_then(|one| Priority::new(one).ok()), listed.iter().copied())
}

/// Room for ten in an advert.
const ROOM: Option<usize> = Some(10);

#[test]
fn nothing_is_said_to_be_missing_from_a_list_that_nobody_sent() {
    assert_eq!(HeardAdverts::default().not_listed(&vips(50..60), ROOM), vips(0..0));
}

#[test]
fn what_the_last_advert_did_not_list_nobody_has() {
    let mut heard = HeardAdverts::default();
    for (listed, not_listed) in [(50..60, 0..0), (50..55, 55..60), (40..50, 50..60), (40..70, 0..0)] {
        hear(&mut heard, Some(100), &vips(listed));
        assert_eq!(heard.not_listed(&vips(50..60), ROOM), vips(not_listed));
    }
}

#[test]
fn one_that_may_stand_for_more_than_an_advert_has_room_for_says_nothing_of_the_others() {
    let mut heard = HeardAdverts::default();
    hear(&mut heard, Some(100), &vips(50..51));
    assert_eq!(heard.not_listed(&vips(50..61), ROOM), vips(0..0));
    assert_eq!(heard.not_listed(&vips(50..61), None), vips(0..0));
    assert_eq!(heard.not_listed(&vips(50..60), ROOM), vips(51..60), "these would have had room");
}

#[test]
fn who_took_all_away_has_none_however_many_there_were_and_also_once_it_has_resigned() {
    let mut heard = HeardAdverts::default();
    let own = [ONE].into();
    for priority in [Some(255), None] {
        hear(&mut heard, priority, &own);
        assert!(!heard.tells_of_vips());
        assert_eq!(heard.not_listed(&vips(50..70), ROOM), vips(50..70));
    }
}

#[test]
fn an_advert_that_says_the_same_is_no_news() {
    let mut heard = HeardAdverts::default();
    assert!(hear(&mut heard, Some(100), &vips(50..52)));
    assert!(!hear(&mut heard, Some(100), &vips(50..52)));
    assert!(!hear(&mut heard, None, &vips(50..52)), "who resigns had them");
    assert!(!heard.hear(OTHER, Priority::new(90).ok(), vips(50..52).iter().copied()), "another has them");
    assert_eq!((heard.from(), heard.list_number()), (Some(OTHER), 1));
    assert!(hear(&mut heard, Some(255), &vips(50..52)), "they are taken away");
    assert!(hear(&mut heard, Some(255), &vips(50..51)));
    assert_eq!(heard.list_number(), 2);
}
