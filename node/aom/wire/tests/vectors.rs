//! Frozen vectors of aom/1, made by an independent generator.

mod sequencers;

use corniche_aom_vectors::{Derive, Op, Receive, Step, Vector, load};
use corniche_aom_wire::{
    Error, ExchangeKey, Header, Packet, Request, Stamper, TagKey, TagScope, VerifyingKey, derive_tag_key, payload_digest,
};
use sequencers::suite;
use std::collections::BTreeSet;

/// A skipped vector is visible: the ids that ran are those that name this producer.
#[test]
fn wire_runs_all_its_vectors() {
    let vectors = load();
    let mut handled = BTreeSet::new();
    let mut run = |producers: &BTreeSet<String>, id: &str, check: &dyn Fn()| {
        if producers.contains("wire") {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
            assert!(result.is_ok(), "vector {id} failed; see above");
            handled.insert(id.to_owned());
        }
    };
    for vector in &vectors.stamp {
        run(&vector.producers, &vector.id, &|| check_stamp(vector));
    }
    for vector in &vectors.derive {
        run(&vector.producers, &vector.id, &|| check_derive(vector));
    }
    for vector in &vectors.receive {
        run(&vector.producers, &vector.id, &|| check_receive(vector));
    }
    assert_eq!(handled, vectors.ids("wire"));
    assert!(handled.len() >= 198, "vectors were removed: {} are left", handled.len());
}

fn check_stamp(vector: &Vector) {
    let mut stampers: Vec<(bool, Stamper)> =
        vector.groups.iter().map(|group| (group.active, sequencers::stamper(group, vector.chain_id))).collect();
    for (number, step) in vector.steps.iter().enumerate() {
        let result = match step.op {
            Op::Request => stamp(&mut stampers, step),
            Op::Heartbeat => {
                sequencers::check_heartbeat(step);
                let (_, stamper) = stampers.iter_mut().find(|(_, stamper)| Some(stamper.group()) == step.group).unwrap();
                // Heartbeats of this crate are signed at once. Others wait as requests do.
                if step.flush { stamper.heartbeat().map_err(drop_reason) } else { stamp(&mut stampers, step) }
            }
        };
        match &step.drop {
            Some(reason) => assert_eq!(result, Err(reason.as_str()), "step {number}"),
            None => {
                let packets = result.unwrap();
                let expected: Vec<_> = step.out.iter().map(|out| out.0.clone()).collect();
                assert_eq!(packets, expected, "step {number}");
                for packet in &packets {
                    let decoded = Packet::decode(packet).unwrap();
                    assert_eq!((&decoded.encode(), decoded.verify_digest()), (packet, Ok(())));
                    assert_eq!(decoded.header.is_signed(), step.signed, "step {number}");
                }
            }
        }
    }
}

fn stamp(stampers: &mut [(bool, Stamper)], step: &Step) -> Result<Vec<Vec<u8>>, &'static str> {
    let request = Request::decode(&step.datagram.0).map_err(drop_reason)?;
    let (active, stamper) = stampers.iter_mut().find(|(_, stamper)| stamper.group() == request.group).ok_or("group")?;
    if !*active {
        return Err("inactive");
    }
    if step.lost {
        return stamper.lose().map(|_| Vec::new()).map_err(drop_reason);
    }
    stamper.stamp(&request).map_err(drop_reason)
}

/// Returns the word for a reason in the vectors.
fn drop_reason(error: Error) -> &'static str {
    match error {
        Error::TooShort(_) => "short",
        Error::TooLong(_) => "long",
        Error::Magic(_) => "magic",
        Error::Version(_) => "version",
        Error::Kind { .. } | Error::SuiteOfOtherKind { .. } => "kind",
        Error::NotZero("reserved byte") => "reserved",
        Error::Group { .. } => "group",
        Error::Epoch { .. } => "epoch",
        Error::Suite { .. } | Error::UnknownSuite(_) => "suite",
        Error::NoTag { .. } => "subgroup",
        Error::Digest => "digest",
        Error::Tag => "tag",
        Error::Signature => "signature",
        Error::Exhausted(_) => "exhausted",
        Error::ZeroSeq => "seq",
        Error::PrevSeq { .. } => "prev_seq",
        other => panic!("no word for {other}"),
    }
}

fn check_derive(vector: &Derive) {
    let scope = TagScope {
        chain_id: vector.chain_id,
        group: vector.group,
        epoch: vector.epoch,
        receiver: vector.receiver,
        suite: suite(vector.suite),
    };
    let sequencer = ExchangeKey::from_bytes(vector.sequencer_secret.array());
    let receiver = ExchangeKey::from_bytes(vector.receiver_secret.array());
    assert_eq!(sequencer.public().to_vec(), vector.sequencer_public.0);
    assert_eq!(receiver.public().to_vec(), vector.receiver_public.0);
    for shared in [sequencer.agree(receiver.public()), receiver.agree(sequencer.public())].map(Result::unwrap) {
        assert_eq!(shared.to_vec(), vector.shared_secret.0);
        assert_eq!(derive_tag_key(&shared, scope).unwrap().as_bytes(), &vector.tag_key.0[..]);
    }
}

fn check_receive(vector: &Receive) {
    match receive(vector) {
        Ok(()) => assert!(vector.accept, "{}: accepted", vector.about),
        Err(error) => {
            assert!(!vector.accept, "{}: {error}", vector.about);
            let (reason, found) = (vector.reason.as_deref().unwrap(), drop_reason(error));
            // Some vectors break a rule of the header too, which is checked first.
            let allowed = found == reason || matches!((reason, found), ("tag", "seq") | ("signature", "seq" | "prev_seq"));
            assert!(allowed, "{}: expected {reason}, got {found}", vector.about);
        }
    }
}

fn receive(vector: &Receive) -> Result<(), Error> {
    let packet = Packet::decode(&vector.datagram.0)?;
    let expected = suite(vector.suite);
    let header @ Header { group, epoch, suite, receivers, .. } = packet.header;
    // Receivers know their group; keys of suites with signatures do not.
    if suite.kind() != expected.kind() {
        return Err(Error::SuiteOfOtherKind { suite, kind: suite.kind() as u8 });
    }
    if group != vector.group {
        return Err(Error::Group { expected: vector.group, found: group });
    }
    if epoch != vector.epoch {
        return Err(Error::Epoch { expected: vector.epoch, found: epoch });
    }
    if let Some(public_key) = &vector.public_key {
        header.verify_signature(&VerifyingKey::from_bytes(expected, &public_key.0).unwrap())?;
    } else {
        let receiver = vector.receiver.unwrap();
        let scope = TagScope { chain_id: vector.chain_id, group: vector.group, epoch: vector.epoch, receiver, suite: expected };
        header.verify_tag(&TagKey::from_bytes(scope, &vector.tag_key.as_ref().unwrap().0).unwrap())?;
        assert_eq!(receivers, vector.receivers);
    }
    assert_eq!(packet.verify_digest().is_ok(), payload_digest(group, packet.payload) == header.digest);
    packet.verify_digest()
}
