//! Authentication: commands for one signer and two receivers with the same clock, which jumps.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use windlass_vrrp::auth::{
    AntiReplay, Key, KeyId, Keyring, SignedData, Signer, TRAILER_LENGTH, Trailer, Verifier, WallTime, Window,
};
use windlass_vrrp::units::Vrid;

use crate::input::Input;

const SECRET: [u8; 32] = [7; 32];
/// Times that the clock may be set back by more than the window without a sequence being used again.
const CORRECTIONS: usize = 15;

/// One input of `auth`: the window, then commands.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let anti_replay = match Window::from_seconds(u64::from(input.byte().unwrap_or(0))) {
        Ok(window) => AntiReplay::Window(window),
        Err(_) => AntiReplay::Monotonic,
    };
    let _ = session(&mut input, anti_replay);
}

fn session(input: &mut Input<'_>, anti_replay: AntiReplay) -> Option<()> {
    let (Ok(id), Ok(key)) = (KeyId::new(1), Key::new(&SECRET)) else { panic!("a key of 32 bytes") };
    let keyring = Keyring::new(id, key);
    let source = IpAddr::from([192, 0, 2, 1]);
    let mut message = [0x31, 51, 200, 1, 0, 100, 0, 0, 192, 0, 2, 100];
    let mut signer = Signer::default();
    let (mut loyal, mut occasional) = (Verifier::default(), Verifier::default());
    let mut sequences = BTreeSet::new();
    let mut millis = 1_800_000_000_000_u64;
    let mut corrections = 0;
    let mut latest = millis;
    let mut last: Trailer = [0; TRAILER_LENGTH];
    loop {
        let now = WallTime::since_epoch(Duration::from_millis(millis));
        let subject = SignedData { source, vrid: Vrid::MIN, message: &message };
        match input.byte()? % 6 {
            0 => {
                let trailer = signer.sign(&keyring, anti_replay, subject, now);
                if let AntiReplay::Window(window) = anti_replay
                    && latest > millis + u64::from(window.seconds()) * 1000
                {
                    corrections += 1;
                    latest = millis;
                }
                latest = latest.max(millis);
                let fresh = sequences.insert(trailer[4..12].to_vec());
                assert!(fresh || corrections > CORRECTIONS, "a sequence was used again");
                let heard = loyal.verify(&keyring, anti_replay, subject, &trailer, now);
                assert!(heard.is_ok(), "{heard:?}");
                let again = loyal.verify(&keyring, anti_replay, subject, &trailer, now);
                assert!(again.is_err(), "{again:?}");
                last = trailer;
            }
            1 => {
                // A receiver that misses some of it takes what it hears or finds it old.
                let heard = occasional.verify(&keyring, anti_replay, subject, &last, now);
                let again = occasional.verify(&keyring, anti_replay, subject, &last, now);
                assert!(heard.is_err() || again.is_err());
            }
            2 => millis = millis.saturating_add(u64::from(input.word()?)),
            3 => millis = millis.saturating_sub(u64::from(input.word()?)),
            4 => {
                let at = usize::from(input.byte()?);
                let mask = input.byte()?;
                let mut altered = last;
                match altered.get_mut(at) {
                    Some(byte) => *byte ^= mask,
                    None => message[at % message.len()] ^= mask,
                }
                accepted_if_right(&keyring, source, &message, &altered, now);
            }
            _ => accepted_if_right(&keyring, source, &message, &input.bytes()?, now),
        }
        assert!(loyal.sources() <= 1 && occasional.sources() <= 1);
    }
}

/// Without memory and window, a trailer is accepted if and only if a second reading of the draft finds it right. That it
/// cannot be found without the key is not to be shown here: libFuzzer watches the comparison and finds it.
fn accepted_if_right(
    keyring: &Keyring,
    source: IpAddr,
    message: &[u8; 12],
    trailer: &Trailer,
    now: WallTime,
) {
    let (IpAddr::V4(address), Ok(mut hmac)) = (source, Hmac::<Sha256>::new_from_slice(&SECRET)) else {
        panic!("an IPv4 address and a key of 32 bytes")
    };
    let mut image = message.to_vec();
    image[6..8].fill(0);
    image.extend(&trailer[..12]);
    hmac.update(&[4, message[0] >> 4, Vrid::MIN.get(), 0]);
    hmac.update(&address.octets());
    hmac.update(&[0; 12]);
    hmac.update(&image);
    hmac.update(&[0; 16]);
    let right = trailer[..4] == [1, 1, 0, 0] && hmac.finalize().into_bytes()[..16] == trailer[12..];
    let subject = SignedData { source, vrid: Vrid::MIN, message };
    let heard = Verifier::default().verify(keyring, AntiReplay::Monotonic, subject, trailer, now);
    assert_eq!(heard.is_ok(), right, "{heard:?}");
}
