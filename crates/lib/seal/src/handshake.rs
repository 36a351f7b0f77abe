//! The handshake: two messages, inside Hello and HelloAck. The responder keeps nothing for a
//! stranger: its ephemeral key is a keyed hash of what came, and the Confirm repeats the first
//! message, so that it can compute everything again.

use crate::session::expand;
use crate::{HandshakeError, Level, Offer, Opener, Sealer, Suite};
use aws_lc_rs::{constant_time, hmac};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::{Zeroize, Zeroizing};

/// Longest handshake message in bytes (IK: ephemeral, static key and its tag, offer and its tag).
pub const LONGEST_MESSAGE: usize = 32 + 48 + crate::suite::OFFER_LEN + 16;

/// Bytes of a cookie.
pub const COOKIE_LEN: usize = 16;

/// What an end proves.
#[derive(Clone)]
pub enum Credentials {
    /// The key of the whole cluster (NNpsk0).
    Cluster(Zeroizing<[u8; 32]>),
    /// This node's private key, and the public key of the peer (IK).
    Node {
        /// X25519, 32 bytes.
        private: Zeroizing<[u8; 32]>,
        /// The public key that the cluster file has for the peer.
        peer: [u8; 32],
    },
}

/// Who shakes hands: bound into every key. The encoding is the caller's and the same at both ends:
/// epochs, addresses, channel, ports, the proposer's first. The level and the suites are in the
/// messages, which the handshake's hash covers, too.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a>(pub &'a [u8]);

/// A session's keys.
pub struct Session {
    /// For frames that this end sends.
    pub sealer: Sealer,
    /// For frames that this end receives.
    pub opener: Opener,
    /// What was chosen.
    pub suite: Suite,
    /// What holds for every frame.
    pub level: Level,
    /// The hash of the handshake, the same at both ends.
    pub hash: [u8; 32],
}

struct Given(Zeroizing<[u8; 32]>);

impl Random for Given {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        out.copy_from_slice(self.0.get(..out.len()).ok_or(snow::Error::Rng)?);
        Ok(())
    }
}

/// The default algorithms, with the randomness of the caller.
struct Resolver(Zeroizing<[u8; 32]>);

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Given(self.0.clone())))
    }
    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }
    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

fn state(
    credentials: &Credentials,
    binding: Binding<'_>,
    ephemeral: Zeroizing<[u8; 32]>,
    proposes: bool,
) -> Result<HandshakeState, snow::Error> {
    let name = match credentials {
        Credentials::Cluster(_) => "Noise_NNpsk0_25519_ChaChaPoly_SHA256",
        Credentials::Node { .. } => "Noise_IK_25519_ChaChaPoly_SHA256",
    };
    let mut builder = Builder::with_resolver(name.parse()?, Box::new(Resolver(ephemeral)));
    builder = builder.prologue(binding.0)?;
    builder = match credentials {
        Credentials::Cluster(psk) => builder.psk(0, psk)?,
        Credentials::Node { private, peer } => {
            let builder = builder.local_private_key(&private[..])?;
            if proposes { builder.remote_public_key(peer)? } else { builder }
        }
    };
    if proposes { builder.build_initiator() } else { builder.build_responder() }
}

fn session(
    noise: &mut HandshakeState,
    (level, suite): (Level, Suite),
    proposes: bool,
    now: u64,
) -> Session {
    let (mut first, mut second) = noise.dangerously_get_raw_split();
    let (there, back) = (expand(&first, b"proposer"), expand(&second, b"responder"));
    first.zeroize();
    second.zeroize();
    let (send, receive) = if proposes { (there, back) } else { (back, there) };
    Session {
        sealer: Sealer::new(send, suite, level, now),
        opener: Opener::new(receive, suite, level, now),
        suite,
        level,
        hash: noise.get_handshake_hash().try_into().expect("SHA-256 has 32 bytes"),
    }
}

/// The end that proposes.
pub struct Initiator {
    noise: HandshakeState,
    offer: Offer,
}

impl Initiator {
    /// Makes the first message. `ephemeral` is random and never used again.
    pub fn new(
        credentials: &Credentials,
        binding: Binding<'_>,
        offer: Offer,
        ephemeral: [u8; 32],
    ) -> Result<(Self, Vec<u8>), HandshakeError> {
        let mut noise = state(credentials, binding, Zeroizing::new(ephemeral), true)
            .map_err(|_| HandshakeError::Malformed)?;
        let mut message = vec![0; LONGEST_MESSAGE];
        let length = noise.write_message(&offer.encode(), &mut message);
        message.truncate(length.map_err(|_| HandshakeError::Malformed)?);
        Ok((Self { noise, offer }, message))
    }

    /// Takes the second message. After [`HandshakeError::Refused`] it may take another one, because
    /// a forgery ends nothing. Any other error proves that the peer has the key.
    pub fn finish(&mut self, message: &[u8], now: u64) -> Result<Session, HandshakeError> {
        let mut payload = [0; LONGEST_MESSAGE];
        let length = self.noise.read_message(message, &mut payload);
        if length.map_err(|_| HandshakeError::Refused)? != crate::suite::OFFER_LEN {
            return Err(HandshakeError::Malformed);
        }
        let peer = Offer::decode([payload[0], payload[1], payload[2], payload[3]])?;
        Ok(session(&mut self.noise, self.offer.choose(&peer)?, true, now))
    }
}

/// What a first message leads to.
struct Computed {
    noise: HandshakeState,
    chosen: (Level, Suite),
    answer: Vec<u8>,
}

/// The end that answers. Its memory does not depend on how many propose.
pub struct Responder {
    offer: Offer,
    secrets: [Zeroizing<[u8; 32]>; 2],
    period: u8,
}

impl Responder {
    /// `secret` is random.
    pub fn new(offer: Offer, secret: [u8; 32]) -> Self {
        let secret = Zeroizing::new(secret);
        Self { offer, secrets: [expand(&secret, b"no former period"), secret], period: 0 }
    }

    /// Begins the next period with a random secret, and erases the secret before the last. Forward
    /// secrecy holds from then on. A period is as long as the peer timeout (`PROTOCOL.md` 4.1).
    pub fn rotate(&mut self, secret: [u8; 32]) {
        self.secrets.swap(0, 1);
        self.secrets[1] = Zeroizing::new(secret);
        self.period = self.period.wrapping_add(1);
    }

    fn secret(&self, period: u8) -> Result<&[u8; 32], HandshakeError> {
        match self.period.wrapping_sub(period) {
            0 => Ok(&self.secrets[1]),
            1 => Ok(&self.secrets[0]),
            _ => Err(HandshakeError::TooLate),
        }
    }

    /// Answers a first message: the period, and the second message. Keeps nothing.
    pub fn answer(
        &self,
        credentials: &Credentials,
        binding: Binding<'_>,
        message: &[u8],
    ) -> Result<(u8, Vec<u8>), HandshakeError> {
        let computed = self.compute(credentials, binding, message, self.period)?;
        Ok((self.period, computed.answer))
    }

    /// The session that a Confirm wants: it repeats the period and the first message. The session
    /// is up only when the Confirm itself opens. The caller does this at most once for each pair of
    /// epochs, because the counters begin at 0.
    pub fn accept(
        &self,
        credentials: &Credentials,
        binding: Binding<'_>,
        message: &[u8],
        period: u8,
        now: u64,
    ) -> Result<Session, HandshakeError> {
        let mut computed = self.compute(credentials, binding, message, period)?;
        Ok(session(&mut computed.noise, computed.chosen, false, now))
    }

    fn compute(
        &self,
        credentials: &Credentials,
        binding: Binding<'_>,
        message: &[u8],
        period: u8,
    ) -> Result<Computed, HandshakeError> {
        let own = self.offer.encode();
        let ephemeral = keyed(self.secret(period)?, b"ephemeral", &[binding.0, message, &own]);
        let mut noise = state(credentials, binding, Zeroizing::new(ephemeral), false)
            .map_err(|_| HandshakeError::Malformed)?;
        let mut payload = [0; LONGEST_MESSAGE];
        let length = noise.read_message(message, &mut payload);
        if length.map_err(|_| HandshakeError::Refused)? != crate::suite::OFFER_LEN {
            return Err(HandshakeError::Malformed);
        }
        if let Credentials::Node { peer, .. } = credentials
            && noise.get_remote_static() != Some(&peer[..])
        {
            return Err(HandshakeError::UnknownNode);
        }
        let offer = Offer::decode([payload[0], payload[1], payload[2], payload[3]])?;
        let chosen = self.offer.choose(&offer)?;
        let mut answer = vec![0; LONGEST_MESSAGE];
        let length = noise.write_message(&own, &mut answer);
        answer.truncate(length.map_err(|_| HandshakeError::Refused)?);
        Ok(Computed { noise, chosen, answer })
    }

    /// The cookie of an address for this first message. Under load the responder answers with it
    /// alone, at the cost of one hash, and goes on only with a Hello that repeats it.
    pub fn cookie(&self, address: &[u8], message: &[u8]) -> [u8; COOKIE_LEN] {
        cookie(&self.secrets[1], address, message)
    }

    /// Whether a cookie is of this address and message, of this period or the one before.
    pub fn knows(&self, cookie_: &[u8], address: &[u8], message: &[u8]) -> bool {
        self.secrets.iter().any(|secret| {
            constant_time::verify_slices_are_equal(&cookie(secret, address, message), cookie_)
                .is_ok()
        })
    }
}

fn cookie(secret: &[u8; 32], address: &[u8], message: &[u8]) -> [u8; COOKIE_LEN] {
    let full = keyed(secret, b"cookie", &[address, message]);
    full[..COOKIE_LEN].try_into().expect("16 of 32 bytes")
}

/// HMAC-SHA-256 of a label and parts, each with its length in front.
fn keyed(secret: &[u8; 32], label: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
    context.update(label);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
}
