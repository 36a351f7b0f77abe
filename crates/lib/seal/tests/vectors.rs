//! Published test vectors.

use aegis::aegis128l::{Aegis128L, Aegis128LMac};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use data_encoding::HEXLOWER;
use gigae_seal::{FrameKey, Level, Suite};

fn hex<const N: usize>(text: &str) -> [u8; N] {
    HEXLOWER.decode(text.as_bytes()).unwrap().try_into().unwrap()
}

/// McGrew and Viega, The Galois/Counter Mode of Operation, test cases 1 and 2.
#[test]
fn aes_128_gcm() {
    let mut block = [0; 16];
    let key = FrameKey::new(Suite::Aes128Gcm, Level::Encrypt, &[0; 32]);
    assert_eq!(key.seal(0, &mut [], 0), hex("58e2fccefa7e3061367f1d57a4e7455a"));
    assert_eq!(key.seal(0, &mut block, 0), hex("ab6e47d42cec13bdf53a67b21257bddf"));
    assert_eq!(block, hex("0388dace60b6a392f328c2b971b2fe78"));
}

/// RFC 10032, AEGIS-128L test vector 1 and AEGISMAC-128L.
#[test]
fn aegis_128l() {
    let key = hex("10010000000000000000000000000000");
    let nonce = hex("10000200000000000000000000000000");
    let mut block = [0; 16];
    let tag = Aegis128L::<16>::new(&key, &nonce).encrypt_in_place(&mut block, &[]);
    assert_eq!(block, hex("c1c0e58bd913006feba00f4b3cc3594e"));
    assert_eq!(tag, hex("abe0ece80c24868a226a35d16bdae37a"));
    let mut mac = Aegis128LMac::<16>::new_with_nonce(&key, &nonce);
    mac.update(&(0..0x23).collect::<Vec<u8>>());
    assert_eq!(mac.finalize(), hex("d3f09b2842ad301687d6902c921d7818"));
}

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        42
    }
}

/// RFC 5869, A.1.
#[test]
fn hkdf_sha256() {
    let salt: [u8; 13] = hex("000102030405060708090a0b0c");
    let prk: Prk = Salt::new(HKDF_SHA256, &salt).extract(&[0x0b; 22]);
    let info: [u8; 10] = hex("f0f1f2f3f4f5f6f7f8f9");
    let mut out = [0; 42];
    prk.expand(&[&info], Length).unwrap().fill(&mut out).unwrap();
    let expected =
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
    assert_eq!(out, hex(expected));
}
