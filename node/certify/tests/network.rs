//! Four certifiers and random deliveries. In any order and with any lies, nothing is certified that an honest
//! quorum did not execute. Once everything has arrived, all have the newest certificate.

mod common;

use common::*;
use corniche_certify::{Certifier, Output};
use corniche_types::{B256, Bytes, Height, ValidatorIndex};
use proptest::prelude::*;

const HEIGHTS: u64 = 4;

/// Faulty behaviour of validator 3.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    Silent,
    FalseSignature,
    OtherHeader,
    Garbage,
}

fn faulty_share(fault: Fault, bytes: Bytes, height: u64) -> Option<Bytes> {
    match fault {
        Fault::None => Some(bytes),
        Fault::Silent => None,
        Fault::FalseSignature => Some(false_share(4, 3, height, header(height))),
        Fault::OtherHeader => Some(share(4, 3, height, B256::repeat_byte(0xee))),
        Fault::Garbage => Some(Bytes::from_static(b"garbage")),
    }
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(Fault::None),
        Just(Fault::Silent),
        Just(Fault::FalseSignature),
        Just(Fault::OtherHeader),
        Just(Fault::Garbage)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_event_order_certifies_newest(fault in any_fault(), order in proptest::collection::vec(any::<u32>(), 200)) {
        let mut nodes: Vec<Certifier> = (0..4).map(|index| validator(4, index)).collect();
        let mut executed = [0u64; 4];
        let mut mail: Vec<(usize, usize, Bytes)> = Vec::new();
        let mut newest = [Height(0); 4];
        for choice in order.into_iter().chain(std::iter::repeat_n(0, 500)) {
            // Either some node executes its next block, or some share arrives.
            let lagging: Vec<usize> = (0..4).filter(|&node| executed[node] < HEIGHTS).collect();
            let choices = lagging.len() + mail.len();
            if choices == 0 {
                break;
            }
            let choice = choice as usize % choices;
            let node = if let Some(&node) = lagging.get(choice) {
                executed[node] += 1;
                nodes[node].executed(Height(executed[node]), header(executed[node]));
                node
            } else {
                let (from, to, bytes) = mail.remove(choice - lagging.len());
                nodes[to].share(ValidatorIndex(from as u16), bytes);
                to
            };
            for output in drain(&mut nodes[node]) {
                match output {
                    Output::Broadcast(bytes) => {
                        let bytes = if node == 3 { faulty_share(fault, bytes, executed[3]) } else { Some(bytes) };
                        mail.extend((0..4).filter(|&to| to != node).filter_map(|to| Some((node, to, bytes.clone()?))));
                    }
                    Output::Certified(certificate) => {
                        prop_assert_eq!(certificate.header_hash, header(certificate.height.0));
                        prop_assert!(certificate.height.0 <= executed[node], "certified before it was executed");
                        prop_assert!(certificate.height > newest[node], "heights only grow");
                        certified(4, &[Output::Certified(certificate.clone())]);
                        newest[node] = certificate.height;
                    }
                    Output::Accuse { validator, .. } => prop_assert_eq!(validator, ValidatorIndex(3), "an honest one was accused"),
                    Output::Contradicted { .. } => prop_assert!(false, "nobody signs two headers"),
                    Output::Diverged { .. } => prop_assert!(false, "diverged"),
                }
            }
        }
        prop_assert!(mail.is_empty());
        prop_assert!(newest[..3].iter().all(|height| *height == Height(HEIGHTS)), "{:?}: {:?}", fault, newest);
    }
}
