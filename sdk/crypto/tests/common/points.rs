//! Points of the curve that are not signatures.

use blst::{
    MultiPoint,
    min_sig::{AggregateSignature, Signature},
};

pub fn plus(one: &[u8; 48], other: &[u8; 48]) -> [u8; 48] {
    let [one, other] = [one, other].map(|bytes| Signature::uncompress(bytes).unwrap());
    AggregateSignature::aggregate(&[&one, &other], false).unwrap().to_signature().compress()
}

/// Returns a point whose order divides the curve's cofactor: the group's order times some point.
pub fn torsion() -> [u8; 48] {
    let mut order = hex_bytes("73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001");
    order.reverse();
    let point = [Signature::uncompress(&off_group()).unwrap()].as_slice().mult(&order, 255).to_signature();
    assert_ne!(point.validate(true), Err(blst::BLST_ERROR::BLST_PK_IS_INFINITY));
    point.compress()
}

fn hex_bytes(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Returns a point of the curve outside of the group: the curve has a cofactor, so some small x works.
pub fn off_group() -> [u8; 48] {
    let point = |x: u8| {
        let mut bytes = [0u8; 48];
        (bytes[0], bytes[47]) = (0x80, x);
        let point = Signature::uncompress(&bytes).ok()?;
        point.validate(true).is_err().then_some(bytes)
    };
    (0u8..=255).find_map(point).expect("most points are outside")
}
