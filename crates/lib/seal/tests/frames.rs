//! Frames: what is opened, and what is refused.

use gigae_seal::{
    Binding, Credentials, HandshakeError, Initiator, Level, OVERLAP, Offer, OpenError, Responder,
    Session, Suite, TIME_OF_A_PHASE,
};
use proptest::prelude::*;

const HEADER: usize = 32;

fn pair(level: Level, suite: Suite) -> (Session, Session) {
    let key = Credentials::Cluster([7; 32].into());
    shake(&key, &key, (b"ends", b"ends"), [Offer::new(level, &[suite]); 2]).unwrap()
}

fn shake(
    one: &Credentials,
    other: &Credentials,
    ends: (&[u8], &[u8]),
    offers: [Offer; 2],
) -> Result<(Session, Session), HandshakeError> {
    let (mut initiator, hello) = Initiator::new(one, Binding(ends.0), offers[0], [1; 32])?;
    let responder = Responder::new(offers[1], [2; 32]);
    let (period, ack) = responder.answer(other, Binding(ends.1), &hello)?;
    let first = initiator.finish(&ack, 0)?;
    let second = responder.accept(other, Binding(ends.1), &hello, period, 0)?;
    assert_eq!((first.hash, first.suite), (second.hash, second.suite));
    Ok((first, second))
}

fn node(private: u8) -> ([u8; 32], [u8; 32]) {
    use snow::resolvers::{CryptoResolver, DefaultResolver};
    let mut dh = DefaultResolver.resolve_dh(&snow::params::DHChoice::Curve25519).unwrap();
    dh.set(&[private; 32]);
    ([private; 32], dh.pubkey().try_into().unwrap())
}

proptest! {
    #[test]
    fn a_frame_opens_once_and_a_flipped_bit_anywhere_is_refused(
        mut frame in prop::collection::vec(any::<u8>(), HEADER..300),
        bit in any::<usize>(),
        suite in 0..3usize,
        encrypt in any::<bool>(),
        path in 0..8u8,
    ) {
        let level = if encrypt { Level::Encrypt } else { Level::Authenticate };
        let (mut a, mut b) = pair(level, Suite::ALL[suite]);
        let plain = frame.clone();
        let trailer = a.sealer.seal(path, &mut frame, HEADER).unwrap();
        prop_assert_eq!(&frame[..HEADER], &plain[..HEADER]);
        let bits = (frame.len() + 16 + 8) * 8 + 1;
        let (mut wrong, mut bad) = (frame.clone(), trailer);
        match (bit % bits) / 8 {
            at if at < frame.len() => wrong[at] ^= 1 << (bit % bits % 8),
            at if at < frame.len() + 16 => bad.tag[at - frame.len()] ^= 1 << (bit % bits % 8),
            at if at < frame.len() + 24 => bad.counter ^= 1 << (bit % bits - (frame.len() + 16) * 8),
            _ => bad.phase ^= true,
        }
        prop_assert!(b.opener.open(0, &bad, &mut wrong, HEADER).is_err());
        let mut reflected = frame.clone();
        prop_assert!(a.opener.open(0, &trailer, &mut reflected, HEADER).is_err());
        let mut again = frame.clone();
        prop_assert_eq!(b.opener.open(0, &trailer, &mut frame, HEADER), Ok(()));
        prop_assert_eq!(frame, plain);
        let replayed = b.opener.open(0, &trailer, &mut again, HEADER);
        prop_assert_eq!(replayed, Err(OpenError::Replayed));
    }
}

#[test]
fn keys_roll_without_a_pause_and_late_frames_open_until_the_old_key_is_forgotten() {
    let (mut a, mut b) = pair(Level::Encrypt, Suite::Aes128Gcm);
    let mut late: Vec<_> = (0..2)
        .map(|n| {
            let mut frame = [n; 40];
            (a.sealer.seal(0, &mut frame, HEADER).unwrap(), frame)
        })
        .collect();
    let mut now = TIME_OF_A_PHASE;
    assert!(!a.sealer.roll_if_due(now - 1) && a.sealer.roll_if_due(now));
    let mut frame = [9; 40];
    let trailer = a.sealer.seal(0, &mut frame, HEADER).unwrap();
    assert!(trailer.phase);
    assert_eq!(b.opener.open(now, &trailer, &mut frame, HEADER), Ok(()));
    let (trailer, frame) = &mut late[0];
    assert_eq!(b.opener.open(now, trailer, frame, HEADER), Ok(()));
    now += OVERLAP;
    let (trailer, frame) = &mut late[1];
    assert_eq!(b.opener.open(now, trailer, frame, HEADER), Err(OpenError::BadTag));
    for _ in 0..5 {
        now += TIME_OF_A_PHASE;
        assert!(a.sealer.roll_if_due(now));
        let mut frame = [9; 40];
        let trailer = a.sealer.seal(0, &mut frame, HEADER).unwrap();
        assert_eq!(b.opener.open(now, &trailer, &mut frame, HEADER), Ok(()));
    }
}

#[test]
fn other_keys_ends_levels_and_suites_are_refused() {
    let aegis = Offer::new(Level::Encrypt, &[Suite::Aegis128L]);
    let key = Credentials::Cluster([7; 32].into());
    let refused = |result: Result<(Session, Session), _>| result.map(drop).unwrap_err();
    let wrong = Credentials::Cluster([8; 32].into());
    let ends: (&[u8], &[u8]) = (b"ab", b"ab");
    assert_eq!(refused(shake(&key, &wrong, ends, [aegis; 2])), HandshakeError::Refused);
    let error = refused(shake(&key, &key, (b"ab", b"ba"), [aegis; 2]));
    assert_eq!(error, HandshakeError::Refused);
    let weak = Offer::new(Level::Authenticate, &[Suite::Aegis128L]);
    let error = refused(shake(&key, &key, ends, [weak, aegis]));
    assert!(matches!(error, HandshakeError::Level { .. }));
    let gcm = Offer::new(Level::Encrypt, &[Suite::Aes128Gcm]);
    assert_eq!(refused(shake(&key, &key, ends, [gcm, aegis])), HandshakeError::NoCommonSuite);
}

#[test]
fn a_changed_or_replayed_handshake_makes_no_session() {
    let key = Credentials::Cluster([7; 32].into());
    let offer = Offer::of_this_processor(Level::Encrypt);
    let mut responder = Responder::new(offer, [2; 32]);
    let (_, hello) = Initiator::new(&key, Binding(b"ab"), offer, [1; 32]).unwrap();
    let (period, ack) = responder.answer(&key, Binding(b"ab"), &hello).unwrap();
    for bit in 0..hello.len() * 8 {
        let mut wrong = hello.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert!(responder.answer(&key, Binding(b"ab"), &wrong).is_err(), "bit {bit}");
    }
    for bit in 0..ack.len() * 8 {
        // The last bit of an X25519 key has no meaning there; the hash covers it all the same.
        let (mut initiator, _) = Initiator::new(&key, Binding(b"ab"), offer, [1; 32]).unwrap();
        let mut wrong = ack.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        let error = initiator.finish(&wrong, 0).map(drop).unwrap_err();
        assert_eq!(error, HandshakeError::Refused);
        assert!(initiator.finish(&ack, 0).is_ok(), "bit {bit}: a forgery ended it");
    }
    let cookie = responder.cookie(b"address", &hello);
    assert!(responder.knows(&cookie, b"address", &hello));
    assert!(
        !responder.knows(&cookie, b"another", &hello) && !responder.knows(&[], b"address", &hello)
    );
    responder.rotate([3; 32]);
    assert!(responder.knows(&cookie, b"address", &hello));
    assert!(responder.accept(&key, Binding(b"ab"), &hello, period, 0).is_ok());
    responder.rotate([4; 32]);
    assert!(!responder.knows(&cookie, b"address", &hello));
    let late = responder.accept(&key, Binding(b"ab"), &hello, period, 0).map(drop);
    assert_eq!(late.unwrap_err(), HandshakeError::TooLate);
}

#[test]
fn nodes_with_key_pairs_know_each_other() {
    let ((a, public_a), (b, public_b), (c, public_c)) = (node(1), node(2), node(3));
    let of = |private: [u8; 32], peer| Credentials::Node { private: private.into(), peer };
    let offers = [Offer::of_this_processor(Level::Encrypt); 2];
    let ends: (&[u8], &[u8]) = (b"ab", b"ab");
    assert!(shake(&of(a, public_b), &of(b, public_a), ends, offers).is_ok());
    // A node whose key is stolen, c, can be c and nobody else.
    let error = shake(&of(c, public_b), &of(b, public_a), ends, offers).map(drop).unwrap_err();
    assert_eq!(error, HandshakeError::UnknownNode);
    let error = shake(&of(a, public_b), &of(c, public_a), ends, offers).map(drop).unwrap_err();
    assert_eq!(error, HandshakeError::Refused);
    assert!(shake(&of(c, public_b), &of(b, public_c), ends, offers).is_ok());
}

#[test]
fn both_ends_choose_alike_for_every_pair_of_offers() {
    let mut offers = vec![];
    for a in Suite::ALL {
        for b in Suite::ALL {
            for c in Suite::ALL {
                offers.push(Offer::new(Level::Encrypt, &[a, b, c]));
            }
        }
    }
    for one in &offers {
        assert_eq!(Offer::decode(one.encode()), Ok(*one));
        for other in &offers {
            assert_eq!(one.choose(other), other.choose(one));
        }
    }
}
