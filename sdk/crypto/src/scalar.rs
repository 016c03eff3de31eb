//! Arithmetic modulo the order of BLS12-381's groups: what Shamir sharing needs and blst offers only through C.

// Every call passes references to initialised fixed-size values that outlive it, and no length.
#![allow(unsafe_code)]

use blst::{
    blst_fr, blst_fr_add, blst_fr_eucl_inverse, blst_fr_from_scalar, blst_fr_from_uint64, blst_fr_mul, blst_fr_sub,
    blst_lendian_from_scalar, blst_scalar, blst_scalar_from_be_bytes, blst_scalar_from_fr,
};

/// An element of the scalar field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar(blst_fr);

impl Scalar {
    pub(crate) fn from_u64(value: u64) -> Self {
        let mut out = blst_fr::default();
        // SAFETY: reads four limbs, writes one field element.
        unsafe { blst_fr_from_uint64(&mut out, [value, 0, 0, 0].as_ptr()) };
        Self(out)
    }

    /// Reduces 512 uniform bits, so that the result is uniform up to 2⁻²⁵⁶.
    pub(crate) fn from_uniform(bytes: &[u8; 64]) -> Self {
        let mut scalar = blst_scalar::default();
        let mut out = blst_fr::default();
        // SAFETY: the length is that of the array. The result of the first call says whether the scalar is non-zero;
        // zero is as good an element as any other.
        unsafe {
            blst_scalar_from_be_bytes(&mut scalar, bytes.as_ptr(), bytes.len());
            blst_fr_from_scalar(&mut out, &scalar);
        }
        Self(out)
    }

    pub(crate) fn add(self, other: Self) -> Self {
        let mut out = blst_fr::default();
        // SAFETY: three field elements.
        unsafe { blst_fr_add(&mut out, &self.0, &other.0) };
        Self(out)
    }

    pub(crate) fn sub(self, other: Self) -> Self {
        let mut out = blst_fr::default();
        // SAFETY: three field elements.
        unsafe { blst_fr_sub(&mut out, &self.0, &other.0) };
        Self(out)
    }

    pub(crate) fn mul(self, other: Self) -> Self {
        let mut out = blst_fr::default();
        // SAFETY: three field elements.
        unsafe { blst_fr_mul(&mut out, &self.0, &other.0) };
        Self(out)
    }

    /// Zero for zero. Not constant time: for public values.
    pub(crate) fn inverse(self) -> Self {
        let mut out = blst_fr::default();
        // SAFETY: two field elements.
        unsafe { blst_fr_eucl_inverse(&mut out, &self.0) };
        Self(out)
    }

    /// Little endian, as blst's multi-scalar multiplication reads it.
    pub(crate) fn to_le_bytes(self) -> [u8; 32] {
        let mut scalar = blst_scalar::default();
        let mut out = [0u8; 32];
        // SAFETY: a scalar has 32 bytes.
        unsafe {
            blst_scalar_from_fr(&mut scalar, &self.0);
            blst_lendian_from_scalar(out.as_mut_ptr(), &scalar);
        }
        out
    }

    pub(crate) fn to_be_bytes(self) -> [u8; 32] {
        let mut bytes = self.to_le_bytes();
        bytes.reverse();
        bytes
    }
}

/// The value at zero of a polynomial known at `points` is the sum of its values times these coefficients. The points must
/// be distinct and not zero.
pub(crate) fn lagrange_at_zero(points: &[u64]) -> Vec<Scalar> {
    let points: Vec<Scalar> = points.iter().map(|&point| Scalar::from_u64(point)).collect();
    let coefficient = |i: usize| {
        let (mut numerator, mut denominator) = (Scalar::from_u64(1), Scalar::from_u64(1));
        for (j, &other) in points.iter().enumerate() {
            if i != j {
                numerator = numerator.mul(other);
                denominator = denominator.mul(other.sub(points[i]));
            }
        }
        numerator.mul(denominator.inverse())
    };
    (0..points.len()).map(coefficient).collect()
}

/// The polynomial's value at `x`, lowest coefficient first.
pub(crate) fn evaluate(coefficients: &[Scalar], x: u64) -> Scalar {
    let x = Scalar::from_u64(x);
    coefficients.iter().rev().fold(Scalar::from_u64(0), |value, &coefficient| value.mul(x).add(coefficient))
}
