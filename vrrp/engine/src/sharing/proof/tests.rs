use std::net::Ipv4Addr;

use super::*;

const MAC: Mac = [2, 0, 0, 0, 0, 1];
const SHARED: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 50));

fn hop(n: u8) -> NextHop {
    NextHop { interface: 2, address: Ipv4Addr::new(192, 0, 2, n).into() }
}

/// Server 1, which is asked, and the clock.
struct Asked(Proof, Time, Option<u64>);

impl Asked {
    fn new() -> Self {
        let mut proof = Proof::default();
        proof.ask_only(&[(hop(1), MAC)].into());
        Self(proof, Time::default() + Duration::from_secs(100), None)
    }

    /// Lets so many seconds pass. Each question is answered from the server's own address, and from the shared one.
    fn seconds(&mut self, count: u64, own: bool, shared: bool) {
        for _ in 0..count {
            if let [(_, _, nonce)] = self.0.ask(self.1, || 7)[..] {
                self.2 = Some(nonce);
                let sources = [own.then_some(hop(1).address), shared.then_some(SHARED)];
                sources.into_iter().flatten().for_each(|source| self.0.note(2, &answer(source, nonce)));
            }
            self.1 = self.1 + Duration::from_secs(1);
        }
    }

    fn is_filtered(&self) -> bool {
        self.0.filtered() == [hop(1).address].into()
    }
}

fn answer(source: IpAddr, nonce: u64) -> Message {
    let destination = hop(2).address;
    Message { to: [0; 6], from: MAC, source, destination, is_answer: true, nonce, shared: SHARED }
}

#[test]
fn a_server_is_filtered_while_it_answers_from_its_own_address_and_never_from_the_shared_one() {
    // Seconds, answers from the own and the shared address, and the verdict after them.
    let rows: [&[(u64, bool, bool, bool)]; 7] = [
        &[(100, true, true, false)],
        // Frozen, too old to answer, or gone: nothing is judged, before and after.
        &[(300, false, false, false), (13, true, false, true), (300, false, false, true)],
        &[(12, true, false, false), (1, true, false, true), (10, true, true, false)],
        // Noticed 22 s after the last proof at the latest.
        &[(1, true, true, false), (21, true, false, false), (1, true, false, true)],
        // Three in a row are a loss.
        &[(9, true, false, false), (3, true, true, false), (300, true, true, false)],
        &[(300, false, true, false)],
        // Silence in between changes nothing.
        &[(3, true, false, false), (30, false, false, false), (13, true, false, true)],
    ];
    for row in rows {
        let mut asked = Asked::new();
        for (at, (seconds, own, shared, expected)) in row.iter().enumerate() {
            asked.seconds(*seconds, *own, *shared);
            assert_eq!(asked.is_filtered(), *expected, "{row:?}, part {at}");
        }
    }
}

#[test]
fn a_server_that_proves_its_path_or_does_not_answer_is_asked_once_in_ten_seconds() {
    for (own, shared, expected) in [(true, true, 10), (false, false, 10), (true, false, 5 + 8)] {
        let mut asked = Asked::new();
        let mut count = 0;
        for _ in 0..100 {
            asked.2 = None;
            asked.seconds(1, own, shared);
            count += u32::from(asked.2.is_some());
        }
        assert_eq!(count, expected, "{own} {shared}");
    }
}

#[test]
fn only_an_answer_of_the_server_to_its_last_question_counts() {
    let right = answer(SHARED, 7);
    let rows = [
        ("right", 2, right, true),
        ("interface", 3, right, false),
        ("number", 2, answer(SHARED, 8), false),
        ("sender", 2, Message { from: [2, 0, 0, 0, 0, 2], ..right }, false),
        ("family", 2, Message { destination: "fe80::1".parse().unwrap(), ..right }, false),
        ("source", 2, answer(hop(3).address, 7), false),
    ];
    for (what, interface, message, counts) in rows {
        let mut asked = Asked::new();
        asked.seconds(20, true, false);
        assert!(asked.is_filtered());
        asked.0.note(interface, &message);
        assert_eq!(asked.is_filtered(), !counts, "{what}");
    }
    let mut never_asked = Proof::default();
    never_asked.ask_only(&[(hop(1), MAC)].into());
    never_asked.note(2, &answer(SHARED, 0));
    assert_eq!(never_asked.filtered(), [].into());
}

#[test]
fn a_verdict_ends_when_the_link_layer_address_changes_or_the_server_is_no_more_asked() {
    for others in [vec![(hop(1), [2, 0, 0, 0, 0, 9])], vec![(hop(2), MAC)]] {
        let mut asked = Asked::new();
        asked.seconds(20, true, false);
        asked.0.ask_only(&[(hop(1), MAC), (hop(2), MAC)].into());
        assert!(asked.is_filtered());
        asked.0.ask_only(&others.into_iter().collect());
        assert!(!asked.is_filtered());
    }
}
