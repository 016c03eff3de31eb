//! Properties of the format: nothing panics, every flipped bit is noticed, and encoding is the inverse of decoding.

use corniche_aom_wire::{
    AUTHENTICATED_BYTES, EpochStart, Error, ExchangeKey, HEADER_BYTES, Header, Kind, MAX_PAYLOAD_BYTES, Packet, Request,
    SigningKey, Stamper, Suite, TagKey, TagScope, derive_tag_key, encode_request, exchange_public, genesis_hash,
};
use proptest::{collection::vec, prelude::*, sample::Index};

const CHAIN_ID: u64 = 86;
const GROUP: u32 = 7;
const EPOCH: u32 = 3;
const HM: [Suite; 3] = [Suite::SipHash64, Suite::SipHash128, Suite::HalfSipHash64];
const PK: &[Suite] = if cfg!(feature = "ecdsa") { &[Suite::Ecdsa, Suite::Ed25519] } else { &[Suite::Ed25519] };

fn scope(suite: Suite, receiver: u16) -> TagScope {
    TagScope { chain_id: CHAIN_ID, group: GROUP, epoch: EPOCH, receiver, suite }
}

fn tag_key(suite: Suite, receiver: u16) -> TagKey {
    derive_tag_key(&[receiver as u8; 32], scope(suite, receiver)).unwrap()
}

fn tag_keys(suite: Suite, receivers: u16) -> Vec<TagKey> {
    (0..receivers).map(|receiver| tag_key(suite, receiver)).collect()
}

fn signing_key(suite: Suite) -> SigningKey {
    SigningKey::from_bytes(suite, &[5; 32]).unwrap()
}

fn any_suite() -> impl Strategy<Value = Suite> {
    prop::sample::select([&HM[..], PK].concat())
}

fn stamper(suite: Suite, receivers: u16) -> Stamper {
    match suite.kind() {
        Kind::Hm => Stamper::hm(tag_keys(suite, receivers)).unwrap(),
        Kind::Pk => Stamper::pk(CHAIN_ID, GROUP, EPOCH, signing_key(suite), 1).unwrap(),
    }
}

/// Judges a datagram as receiver `receiver` does.
fn accept(datagram: &[u8], suite: Suite, receiver: u16) -> Result<(), Error> {
    let packet = Packet::decode(datagram)?;
    packet.verify_digest()?;
    match suite.kind() {
        Kind::Hm => packet.header.verify_tag(&tag_key(suite, receiver)),
        Kind::Pk => packet.header.verify_signature(&signing_key(suite).verifying_key()),
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..400)) {
        let _ = Request::decode(&bytes);
        let _ = Packet::decode(&bytes);
    }

    /// A valid start brings decoding past its first checks.
    #[test]
    fn arbitrary_headers_never_panic(mut bytes in vec(any::<u8>(), HEADER_BYTES..400), kind in 0_u8..4, suite in 0_u8..7) {
        bytes[..4].copy_from_slice(&[0xA0, 0x4D, 1, kind]);
        bytes[14..16].copy_from_slice(&[suite, 0]);
        let _ = Request::decode(&bytes);
        if let Ok(packet) = Packet::decode(&bytes) {
            prop_assert_eq!(packet.encode(), &bytes[..], "a decoded packet encodes to the same bytes");
            for suite in HM {
                let _ = packet.header.verify_tag(&tag_key(suite, 63));
            }
            for suite in PK {
                prop_assert!(packet.header.verify_signature(&signing_key(*suite).verifying_key()).is_err());
            }
        }
    }

    #[test]
    fn epoch_starts_come_back(group: u32, epoch: u32, certificate in vec(any::<u8>(), 0..300), at in any::<Index>(), bit in 0_u8..8) {
        let start = EpochStart { group, epoch, certificate: &certificate };
        let mut datagram = start.encode().unwrap();
        prop_assert_eq!(EpochStart::decode(&datagram), Ok(start));
        prop_assert!(Request::decode(&datagram).is_err() && Packet::decode(&datagram).is_err());
        let at = at.index(datagram.len());
        datagram[at] ^= 1_u8 << bit;
        prop_assert!(EpochStart::decode(&datagram).map_or(true, |other| (8..12).contains(&at) && other.epoch != epoch));
    }

    /// The secret and the public half of an ed25519 key become the halves of one X25519 key.
    #[test]
    fn ed25519_keys_exchange(one: [u8; 32], other: [u8; 32]) {
        let public = |seed: &[u8; 32]| exchange_public(&ed25519_dalek::SigningKey::from_bytes(seed).verifying_key().to_bytes());
        let [(secret, key), (other_secret, other_key)] =
            [one, other].map(|seed| (ExchangeKey::from_ed25519(&seed), public(&seed).unwrap()));
        prop_assert_eq!(secret.public(), key);
        prop_assert_eq!(secret.agree(other_key).unwrap(), other_secret.agree(key).unwrap());
    }

    #[test]
    fn requests_and_packets_come_back(suite in any_suite(), n in 1_u16..=64, payload in vec(any::<u8>(), 0..300)) {
        let datagram = encode_request(GROUP, &payload).unwrap();
        let request = Request::decode(&datagram).unwrap();
        prop_assert_eq!(request, Request::new(GROUP, &payload).unwrap());
        prop_assert_eq!(request.encode(), &datagram[..]);
        let packets = stamper(suite, n).stamp(&request).unwrap();
        prop_assert_eq!(packets.len(), if suite.kind() == Kind::Hm { usize::from(n).div_ceil(4) } else { 1 });
        for packet in &packets {
            let decoded = Packet::decode(packet).unwrap();
            prop_assert_eq!(decoded.payload, &payload[..]);
            prop_assert_eq!(&decoded.encode(), packet);
        }
        for receiver in 0..n {
            let accepted = packets.iter().filter(|packet| accept(packet, suite, receiver).is_ok()).count();
            prop_assert_eq!(accepted, 1, "each receiver accepts exactly one packet of a vector");
        }
    }

    /// T2: the authenticated header, the receiver's own tag or signature, and the payload.
    #[test]
    fn flipped_bit_is_rejected(
        suite in any_suite(), n in 1_u16..=64, receiver in any::<prop::sample::Index>(), bit in any::<prop::sample::Index>(),
        payload in vec(any::<u8>(), 0..40),
    ) {
        let receiver = receiver.index(usize::from(n)) as u16;
        let packets = stamper(suite, n).stamp(&Request::new(GROUP, &payload).unwrap()).unwrap();
        let mut packet = packets.into_iter().find(|packet| accept(packet, suite, receiver).is_ok()).unwrap();
        let mut covered: Vec<usize> = (0..AUTHENTICATED_BYTES).chain(HEADER_BYTES..packet.len()).collect();
        match suite.kind() {
            Kind::Hm => {
                let start = AUTHENTICATED_BYTES + usize::from(receiver) % 4 * suite.tag_bytes();
                covered.extend(start..start + suite.tag_bytes());
                covered.extend(AUTHENTICATED_BYTES + 64..HEADER_BYTES);
            }
            Kind::Pk => covered.extend(AUTHENTICATED_BYTES..HEADER_BYTES),
        }
        let bit = bit.index(covered.len() * 8);
        packet[covered[bit / 8]] ^= 1 << (bit % 8);
        prop_assert!(accept(&packet, suite, receiver).is_err(), "bit {} of byte {}", bit % 8, covered[bit / 8]);
    }

    /// A key of another chain, group, epoch, receiver or suite verifies nothing, although the shared secret is the same.
    #[test]
    fn tag_keys_are_separate(suite in prop::sample::select(&HM), other in 0..5) {
        let scope = scope(suite, 2);
        let mut changed = scope;
        match other {
            0 => changed.chain_id += 1,
            1 => changed.group += 1,
            2 => changed.epoch += 1,
            3 => changed.receiver += 1,
            _ => changed.suite = HM[(suite as usize) % 3],
        }
        let [key, changed] = [scope, changed].map(|scope| derive_tag_key(&[9; 32], scope).unwrap());
        let length = key.as_bytes().len().min(changed.as_bytes().len());
        prop_assert_ne!(&key.as_bytes()[..length], &changed.as_bytes()[..length]);
    }

    #[test]
    fn fields_of_sequencer_are_overwritten(suite in any_suite(), junk in vec(any::<u8>(), HEADER_BYTES)) {
        let clean = encode_request(GROUP, b"transfer").unwrap();
        let mut dirty = clean.clone();
        for range in [8..15, 16..24, 56..160] {
            dirty[range.clone()].copy_from_slice(&junk[range]);
        }
        let [clean, dirty] = [&clean, &dirty].map(|bytes| stamper(suite, 5).stamp(&Request::decode(bytes).unwrap()).unwrap());
        prop_assert_eq!(clean, dirty);
    }

    #[test]
    fn chain_links_and_signs_every_kth(suite in prop::sample::select(PK), every in 1_u32..6, beats in vec(any::<bool>(), 1..20)) {
        let mut stamper = Stamper::pk(CHAIN_ID, GROUP, EPOCH, signing_key(suite), every).unwrap();
        let (mut prev_hash, mut unsigned) = (genesis_hash(CHAIN_ID, GROUP, EPOCH), None::<u32>);
        for (seq, beat) in (1_u64..).zip(beats) {
            let request = Request::new(GROUP, b"x").unwrap();
            let packets = if beat { stamper.heartbeat() } else { stamper.stamp(&request) }.unwrap();
            let header = Packet::decode(&packets[0]).unwrap().header;
            prop_assert_eq!((header.seq, header.prev_seq, header.prev_hash), (seq, seq - 1, prev_hash));
            prev_hash = header.hash();
            let due = beat || unsigned.is_none_or(|unsigned| unsigned + 1 == every);
            prop_assert_eq!(header.is_signed(), due);
            prop_assert_eq!(header.verify_signature(&signing_key(suite).verifying_key()), if due { Ok(()) } else { Err(Error::Unsigned) });
            unsigned = Some(if due { 0 } else { unsigned.unwrap_or(0) + 1 });
            prop_assert_eq!(stamper.owes_signature(), unsigned != Some(0));
        }
    }
}

#[test]
fn sizes_are_limited() {
    let payload = vec![1; MAX_PAYLOAD_BYTES + 1];
    assert_eq!(encode_request(GROUP, &payload), Err(Error::PayloadTooLong(MAX_PAYLOAD_BYTES + 1)));
    let largest = encode_request(GROUP, &payload[1..]).unwrap();
    for mut packet in stamper(Suite::SipHash64, 5).stamp(&Request::decode(&largest).unwrap()).unwrap() {
        assert!(Packet::decode(&packet).is_ok());
        packet.push(0);
        assert_eq!(Packet::decode(&packet), Err(Error::TooLong(HEADER_BYTES + MAX_PAYLOAD_BYTES + 1)));
    }
    for length in 0..HEADER_BYTES {
        assert_eq!(Request::decode(&largest[..length]), Err(Error::TooShort(length)));
        assert_eq!(Packet::decode(&largest[..length]), Err(Error::TooShort(length)));
    }
}

#[test]
fn counter_stops_at_its_maximum() {
    for suite in [Suite::SipHash64, Suite::Ed25519] {
        let mut stamper = stamper(suite, 4).continue_after(u64::MAX - 1, [0; 32]);
        let packets = stamper.heartbeat().unwrap();
        assert_eq!(Packet::decode(&packets[0]).unwrap().header.seq, u64::MAX);
        assert_eq!(stamper.heartbeat(), Err(Error::Exhausted(EPOCH)));
        assert_eq!(stamper.seq(), u64::MAX);
    }
}

/// Every rule of the header, broken one at a time.
#[test]
fn unused_bytes_must_be_zero() {
    let hm = stamper(Suite::SipHash64, 5).heartbeat().unwrap();
    let pk = stamper(Suite::Ed25519, 5).heartbeat().unwrap();
    let broken: [(&[u8], usize, u8, Error); 20] = [
        (&hm[0], 0, 0, Error::Magic(0x004D)),
        (&hm[0], 2, 2, Error::Version(2)),
        (&hm[0], 3, 0, Error::Kind { expected: "1 (HM) or 2 (PK)", found: 0 }),
        (&hm[0], 3, 3, Error::Kind { expected: "1 (HM) or 2 (PK)", found: 3 }),
        (&hm[0], 3, 2, Error::SuiteOfOtherKind { suite: Suite::SipHash64, kind: 2 }),
        (&hm[0], 12, 2, Error::Subgroup { subgroups: 2, found: 2 }),
        (&hm[0], 13, 0, Error::Receivers(0)),
        (&hm[0], 13, 65, Error::Receivers(65)),
        (&hm[0], 14, 0, Error::UnknownSuite(0)),
        (&hm[0], 14, 6, Error::UnknownSuite(6)),
        (&hm[0], 14, 5, Error::SuiteOfOtherKind { suite: Suite::Ed25519, kind: 1 }),
        (&hm[0], 15, 1, Error::NotZero("reserved byte")),
        (&hm[0], 23, 0, Error::ZeroSeq),
        (&hm[0], 88, 1, Error::NotZero("unused part of the authenticator")),
        (&hm[1], 64, 1, Error::NotZero("unused part of the authenticator")),
        (&hm[0], 127, 1, Error::NotZero("prev_seq of HM")),
        (&hm[0], 128, 1, Error::NotZero("prev_hash of HM")),
        (&pk[0], 12, 1, Error::NotZero("subgroup of PK")),
        (&pk[0], 13, 4, Error::NotZero("receivers of PK")),
        (&pk[0], 127, 1, Error::PrevSeq { seq: 1, prev_seq: 1 }),
    ];
    for (packet, offset, byte, error) in broken {
        assert!(Packet::decode(packet).is_ok());
        let mut packet = packet.to_vec();
        packet[offset] = byte;
        assert_eq!(Packet::decode(&packet), Err(error), "byte {offset} is {byte}");
    }
    let mut request = encode_request(GROUP, b"").unwrap();
    request[15] = 1;
    assert_eq!(Request::decode(&request), Err(Error::NotZero("reserved byte")));
    assert_eq!(Request::decode(&hm[0]), Err(Error::Kind { expected: "0 (request)", found: 1 }));
}

#[test]
fn keys_of_a_stamper_are_checked() {
    let keys = tag_keys(Suite::SipHash64, 3);
    assert_eq!(Stamper::hm(vec![]).unwrap_err(), Error::Receivers(0));
    let swapped = vec![keys[0].clone(), keys[2].clone()];
    assert_eq!(Stamper::hm(swapped).unwrap_err(), Error::KeyOrder { expected: 1, found: 2 });
    let mixed = vec![keys[0].clone(), tag_key(Suite::SipHash128, 1)];
    let error = Error::Suite { expected: Suite::SipHash64, found: Suite::SipHash128 };
    assert_eq!(Stamper::hm(mixed).unwrap_err(), error);
    assert_eq!(Stamper::pk(CHAIN_ID, GROUP, EPOCH, signing_key(Suite::Ed25519), 0).unwrap_err(), Error::SignEvery);
    let other = Request::new(GROUP + 1, b"").unwrap();
    assert_eq!(stamper(Suite::SipHash64, 1).stamp(&other), Err(Error::Group { expected: GROUP, found: GROUP + 1 }));
    assert_eq!(TagKey::from_bytes(scope(Suite::SipHash64, 0), &[0; 8]).unwrap_err(), Error::Key(Suite::SipHash64));
    assert_eq!(TagKey::from_bytes(scope(Suite::Ed25519, 0), &[]).unwrap_err(), Error::Key(Suite::Ed25519));
    assert_eq!(TagKey::from_bytes(scope(Suite::SipHash64, 64), &[0; 16]).unwrap_err(), Error::Receivers(65));
    assert_eq!(derive_tag_key(&[1; 32], scope(Suite::Ed25519, 0)).unwrap_err(), Error::Key(Suite::Ed25519));
}

/// A header of another suite, group or epoch is refused by name, not as a bad tag.
#[test]
fn keys_refuse_foreign_headers() {
    let header = Packet::decode(&stamper(Suite::SipHash64, 6).heartbeat().unwrap()[1]).unwrap().header;
    let key = &tag_key(Suite::SipHash64, 5);
    assert_eq!(header.verify_tag(key), Ok(()));
    assert_eq!(Header { group: 8, ..header }.verify_tag(key), Err(Error::Group { expected: GROUP, found: 8 }));
    assert_eq!(Header { epoch: 4, ..header }.verify_tag(key), Err(Error::Epoch { expected: EPOCH, found: 4 }));
    let other = &tag_key(Suite::SipHash128, 5);
    let error = Error::Suite { expected: Suite::SipHash128, found: Suite::SipHash64 };
    assert_eq!(header.verify_tag(other), Err(error));
    // Headers can also be made without decoding.
    for (receivers, subgroup) in (0..=u8::MAX).flat_map(|receivers| (0..=u8::MAX).map(move |subgroup| (receivers, subgroup))) {
        let is_valid = Header { receivers, subgroup, ..header }.verify_tag(key).is_ok();
        assert_eq!(is_valid, (receivers, subgroup) == (6, 1), "receivers {receivers}, subgroup {subgroup}");
    }
    let outside = &tag_key(Suite::SipHash64, 0);
    assert_eq!(header.verify_tag(outside), Err(Error::NoTag { receiver: 0, subgroup: 1, receivers: 6 }));
}

#[test]
fn exchange_agrees_and_refuses_low_order() {
    use corniche_aom_wire::ExchangeKey;
    let (sequencer, receiver) = (ExchangeKey::from_bytes([1; 32]), ExchangeKey::from_bytes([2; 32]));
    assert_eq!(*sequencer.agree(receiver.public()).unwrap(), *receiver.agree(sequencer.public()).unwrap());
    assert_eq!(sequencer.agree([0; 32]).unwrap_err(), Error::LowOrder);
}
