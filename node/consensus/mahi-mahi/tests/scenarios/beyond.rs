//! P24: beyond the fault bound. Two certified siblings prove that more than f validators are faulty. The engine reports
//! them with evidence and delivers nothing any more. It does not panic.

use crate::drawing::Drawing;
use corniche_engine::{Offence, Output, TraceEvent};
use corniche_mahi_mahi::message::SignedBlock;
use corniche_types::{ValidatorIndex, wire};

/// n = 4; 0 and 3 equivocate in every round. 1 sees one half of their siblings, 2 the other: 1@4 certifies 3@1, 2@4
/// 3'@1.
const TWO_EQUIVOCATORS: &str = "
    1 | 0:*     | 1:*     | 2:*      | 3:*     | 3':*
    2 | 0:0 1 3 | 1:1 0 3 | 3:3 0 1  | 0':0@1 2 3' | 2:2 0 3'  | 3':3' 0 2
    3 | 0:0 1 3 | 1:1 0 3 | 3:3 0 1  | 0':0' 2 3'  | 2:2 0' 3' | 3':3' 0' 2
    4 | 1:1 0 3 | 2:2 0' 3' | 0:0 1 3 | 3:3 0 1
    5 | 0:*     | 1:*     | 2:*      | 3:*
    6 | 0:*     | 1:*     | 2:*      | 3:*
    7 | 0:*     | 1:*     | 2:*      | 3:*
    8 | 0:*     | 1:*     | 2:*      | 3:*
    9 | 0:*     | 1:*     | 2:*      | 3:*
";

#[test]
fn two_certified_siblings_halt_delivery_with_proof() {
    let drawing = Drawing::parse(4, 4, TWO_EQUIVOCATORS);
    let leaders: [(u64, &[u16]); 3] = [(1, &[3]), (2, &[1]), (5, &[1])];
    let outputs = drawing.outputs(&leaders, 0..drawing.blocks().count());
    assert!(outputs.iter().all(|output| !matches!(output, Output::Deliver(_))), "nothing is sure any more");
    let alarmed = |output: &&Output| matches!(output, Output::Trace(TraceEvent::Note { name, .. }) if name == "agreement-lost");
    assert_eq!(outputs.iter().filter(alarmed).count(), 1);
    let proofs = outputs.iter().filter_map(|output| match output {
        Output::Accuse { validator, offence: Offence::Equivocation, evidence, .. } => Some((*validator, evidence)),
        _ => None,
    });
    let certified = ["3@1", "3'@1"].map(|name| drawing.reference(name).digest);
    let context = corniche_mahi_mahi::message::Context::new(&crate::crypto::committee(4));
    let proven = proofs.filter(|(validator, _)| *validator == ValidatorIndex(3)).any(|(_, evidence)| {
        let blocks = evidence.iter().map(|bytes| wire::decode::<SignedBlock>(bytes).unwrap());
        let mut digests: Vec<_> = blocks.map(|block| context.digest(&block.content)).collect();
        digests.retain(|digest| certified.contains(digest));
        digests.len() == 2
    });
    assert!(proven, "both certified siblings are exported");
}

#[test]
fn one_certified_sibling_does_not_halt() {
    let text = "
        1 | 0:* | 1:* | 2:* | 3:* | 3':*
        2 | 0:0 1 2 3' | 1:1 0 2 3' | 2:2 0 1 3' | 3:3' 0 1 2
        3 | 0:* | 1:* | 2:* | 3:*
        4 | 0:* | 1:* | 2:* | 3:*
    ";
    let drawing = Drawing::parse(4, 4, text);
    let outputs = drawing.outputs(&[(1, &[3])], 0..drawing.blocks().count());
    assert!(outputs.iter().any(|output| matches!(output, Output::Deliver(_))));
    let noted = |output: &Output| matches!(output, Output::Trace(TraceEvent::Note { name, .. }) if name == "agreement-lost");
    assert!(!outputs.iter().any(noted));
}
