//! Frozen encodings. A change is a new protocol version: old and new nodes could not communicate.

use alloy_primitives::hex;
use corniche_crypto::{BlsSecretKey, ConsensusKey, Domain, Signed, deal_coin};
use corniche_types::{B256, Epoch, FaultModel, Votes, Weights, wire};

/// On a failure, prints the new fixture.
#[track_caller]
fn frozen(name: &str, bytes: &[u8], expected: &str) {
    assert_eq!(hex::encode(bytes), expected, "{name} changed");
}

fn domain() -> Domain {
    Domain { tag: "corniche-test", chain_id: 7, epoch: Epoch(2), committee_hash: B256::repeat_byte(3) }
}

#[test]
fn signed_bytes() {
    let encoded = wire::encode(&(&domain(), &0x0102_0304u32));
    frozen(
        "domain encoding",
        &encoded,
        "010d000000636f726e696368652d7465737407000000000000000200000000000000030303030303030303030303030303030303030303030303030303030303030304030201",
    );
    frozen(
        "domain digest",
        domain().digest(&0x0102_0304u32).as_slice(),
        "b0286530dbabd5df1ad04e2bd2a1bda3e502ddb85e09123cc20eb88901349d8c",
    );
    let signed = Signed::sign(0x0102_0304u32, &ConsensusKey::from_seed([1; 32]), &domain());
    frozen(
        "signed message",
        &wire::encode(&signed),
        "0104030201c719d1cb800b6c94be4b82e2d6d9d74809dd084c65b5c7cb0b87adce43177b032b17f399a77d301e55473e270213c048b5370370b2df473f7ab63f30fa34c003",
    );
}

#[test]
fn bls_keys_and_signatures() {
    let key = BlsSecretKey::from_seed([1; 32]);
    frozen("secret", &hex::decode(key.to_hex()).unwrap(), "144b27828e305a2d67fc7f4eea6de706b405cdd1ab8ad2daec046ccdeeec8b79");
    frozen(
        "public key",
        &key.public().to_bytes(),
        "92c5ed2c7ec2b477af30b4a940ff81e367beca0e1cf98da85be7a0552640d7a9083f54e444dde74cd522b20281bea0de1433c8b152f289be588890ae4fd9cfb3a16a39bfe51d52561563c7c57ded262cf19b639c02d5e6696a7a2cf60137d17b",
    );
    frozen(
        "signature",
        &key.sign(b"corniche").to_bytes(),
        "b5e6e4809d36160f2d82d706d3442d200298cbde9b290dd617b19d8318b6f8980034d00dc95aef4b273e3cae4b5e2f59",
    );
    frozen(
        "possession",
        &key.prove_possession().to_bytes(),
        "b237828b51cd43d42c0c3feea37f7c808ac56f301248dcbf40f4cb7a71a8390b1994b267471416bcc68c2828e6c020ee",
    );
}

#[test]
fn dealt_coin() {
    let deal = deal_coin(&Weights::one_each(4, FaultModel::Byzantine), Votes(3), [1; 32]);
    let (whole, shares) = deal.public.to_genesis();
    frozen(
        "coin key",
        &whole,
        "828b31b4c179c2946118db321a533b08a77f3ab8efd1a18a0a20994cb512225901e8c358604364de721583c5604be52c10b0fe1311842922373678bdf05d604cd73da41e2e7c22147f1969341825dcb07485f8d7c6f2b385c0926c45d243c992",
    );
    frozen(
        "share key",
        &shares[3],
        "ade0e50ce0c120f46613d076a81c49ef3e3fddfb64dab3cc701835e4c664b4769827cfe5bf9dfe50a5be304d147c752103b202de30e63adbb510a8c5c15f2328506615910e95b5c5275c1c427312b1540f02797102a355d80205059be7ab4a3a",
    );
    let signed: Vec<_> = deal.shares.iter().map(|share| (share.index(), share.sign(b"round 1"))).collect();
    frozen(
        "share",
        &signed[3].1[0].0,
        "acaa240c2e789c6371a71b946bc2f510ddc475a28ead619815a8958c62dc035281370184be045269974303a3a593e73f",
    );
    frozen(
        "coin",
        &deal.public.combine(Votes(3), &signed).unwrap().to_bytes(),
        "b5b469f4927da28adc2ae5208fce8767ce4f432d13237480e7f698083dfc8415c3139a5fd718a65b790520447625a686",
    );
}

#[test]
fn digest_is_blake3() {
    // The hash of the empty input, from blake3's specification.
    frozen(
        "blake3",
        corniche_crypto::digest(b"").as_slice(),
        "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
    );
}
