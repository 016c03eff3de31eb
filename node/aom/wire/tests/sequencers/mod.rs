//! Keys and sequencers of the vectors. Tests of the daemon include this file.

use corniche_aom_vectors::{Bytes, Group, Step};
use corniche_aom_wire::{
    ExchangeKey, Kind, Request, SigningKey, Stamper, Suite, TagKey, TagScope, derive_tag_key, genesis_hash,
};

/// Suite of this number.
pub fn suite(number: u8) -> Suite {
    Suite::try_from(number).unwrap()
}

/// Tag keys of a group, derived from the exchange keys and compared with the vector.
fn tag_keys(group: &Group, chain_id: u64) -> Vec<TagKey> {
    let sequencer = ExchangeKey::from_bytes(group.sequencer_x25519_secret.as_ref().unwrap().array());
    let (publics, expected) = (&group.receiver_x25519_publics, &group.tag_keys);
    assert_eq!((publics.len(), expected.len()), (usize::from(group.receivers), usize::from(group.receivers)));
    let derive = |(receiver, (public, expected)): (u16, (&Bytes, &Bytes))| {
        let scope = TagScope { chain_id, group: group.group, epoch: group.epoch, receiver, suite: suite(group.suite) };
        let key = derive_tag_key(&sequencer.agree(public.array()).unwrap(), scope).unwrap();
        assert_eq!(key.as_bytes(), &expected[..], "tag key of receiver {receiver}");
        key
    };
    (0..).zip(publics.iter().zip(expected)).map(derive).collect()
}

fn signing_key(group: &Group) -> SigningKey {
    let key = SigningKey::from_bytes(suite(group.suite), &group.signing_secret.as_ref().unwrap().array()).unwrap();
    assert_eq!(key.verifying_key().to_bytes(), group.public_key.as_ref().unwrap().0);
    key
}

/// The sequencer of a group, at its first number.
pub fn stamper(group: &Group, chain_id: u64) -> Stamper {
    match suite(group.suite).kind() {
        Kind::Hm => Stamper::hm(tag_keys(group, chain_id)).unwrap().continue_after(group.first_seq - 1, [0; 32]),
        Kind::Pk => {
            let chain = group.chain.as_ref().unwrap();
            let stamper =
                Stamper::pk(chain_id, group.group, group.epoch, signing_key(group), group.sign_every.unwrap()).unwrap();
            assert_eq!(chain.prev_seq, group.first_seq - 1);
            let genesis = genesis_hash(chain_id, group.group, group.epoch);
            match chain.since_signed {
                0 => assert_eq!((group.first_seq, chain.prev_hash.array()), (1, genesis)),
                1 => return stamper.continue_after(chain.prev_seq, chain.prev_hash.array()),
                more => panic!("a stamper cannot continue {more} packets after a signature"),
            }
            stamper
        }
    }
}

/// Compares the request that a heartbeat equals.
pub fn check_heartbeat(step: &Step) {
    let request = Request::new(step.group.unwrap(), &[]).unwrap();
    assert_eq!(step.datagram.0, request.encode());
}
