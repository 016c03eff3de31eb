//! Arithmetic modulo the order of BLS12-381's groups, for Shamir sharing. blst provides it only through its C
//! interface.

// Every call passes references to initialised fixed-size values that outlive it, and no length.
#![allow(unsafe_code)]

use blst::{
    blst_fr, blst_fr_add, blst_fr_eucl_inverse, blst_fr_from_scalar, blst_fr_from_uint64, blst_fr_mul, blst_fr_sub,
    blst_lendian_from_scalar, blst_p1, blst_p1_affine, blst_p1_from_affine, blst_p1_mult, blst_p1_to_affine, blst_scalar,
    blst_scalar_fr_check, blst_scalar_from_be_bytes, blst_scalar_from_bendian, blst_scalar_from_fr,
};
use zeroize::Zeroizing;

/// Bits of a scalar.
pub(crate) const SCALAR_BITS: usize = 255;

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

    /// Reduces 512 uniform bits, so the result is uniform up to 2⁻²⁵⁶.
    pub(crate) fn from_uniform(bytes: &[u8; 64]) -> Self {
        let mut scalar = blst_scalar::default();
        let mut out = blst_fr::default();
        // SAFETY: the length is that of the array. The result of the first call only tells whether the scalar is
        // non-zero; zero is a valid element.
        unsafe {
            blst_scalar_from_be_bytes(&mut scalar, bytes.as_ptr(), bytes.len());
            blst_fr_from_scalar(&mut out, &scalar);
        }
        Self(out)
    }

    /// Decodes 32 bytes, big-endian. Returns `None` if the number is not below the group's order.
    pub(crate) fn from_be_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let mut scalar = blst_scalar::default();
        let mut out = blst_fr::default();
        // SAFETY: a scalar has 32 bytes.
        unsafe {
            blst_scalar_from_bendian(&mut scalar, bytes.as_ptr());
            if !blst_scalar_fr_check(&scalar) {
                return None;
            }
            blst_fr_from_scalar(&mut out, &scalar);
        }
        Some(Self(out))
    }

    /// Multiplies a point of G1. Constant time.
    pub(crate) fn times(self, point: &blst_p1_affine) -> blst_p1_affine {
        let (mut out, mut product, mut base) = (blst_p1_affine::default(), blst_p1::default(), blst_p1::default());
        // SAFETY: one point in, one out; 255 bits are in 32 bytes.
        unsafe {
            blst_p1_from_affine(&mut base, point);
            blst_p1_mult(&mut product, &base, self.to_le_bytes().as_ptr(), SCALAR_BITS);
            blst_p1_to_affine(&mut out, &product);
        }
        out
    }

    /// Next scalar of a hash's output.
    pub(crate) fn from_stream(stream: &mut blake3::OutputReader) -> Self {
        let mut uniform = Zeroizing::new([0; 64]);
        stream.fill(&mut *uniform);
        Self::from_uniform(&uniform)
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

    /// Returns the inverse; zero for zero. Not constant time: use only for public values.
    pub(crate) fn inverse(self) -> Self {
        let mut out = blst_fr::default();
        // SAFETY: two field elements.
        unsafe { blst_fr_eucl_inverse(&mut out, &self.0) };
        Self(out)
    }

    /// Returns the little-endian form for blst's multi-scalar multiplication.
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

/// Returns coefficients for interpolation at zero: the value of a polynomial at zero is the sum of its values at
/// `points` times these. The points must be distinct and non-zero.
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

/// [`lagrange_at_zero`] as integers: the sum of the values times `numerators` equals `denominator` times the value at
/// zero. For neighbouring points they have only a few bits, while the modular coefficients have 255.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShortCoefficients {
    pub numerators: Vec<i64>,
    pub denominator: u64,
}

impl ShortCoefficients {
    /// Returns `None` if a number would overflow, as for large committees.
    pub(crate) fn at_zero(points: &[u64]) -> Option<Self> {
        let points: Vec<i128> = points.iter().map(|&point| i128::from(point)).collect();
        let fraction = |i: usize| {
            let others = points.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, &other)| (other, other - points[i]));
            others.into_iter().try_fold((1i128, 1i128), |(numerator, denominator), (above, below)| {
                let (numerator, denominator) = (numerator.checked_mul(above)?, denominator.checked_mul(below)?);
                let common = gcd(numerator, denominator) * denominator.signum();
                Some((numerator / common, denominator / common))
            })
        };
        let fractions: Vec<(i128, i128)> = (0..points.len()).map(fraction).collect::<Option<_>>()?;
        let multiple = |all: i128, (_, one): &(i128, i128)| (all / gcd(all, *one)).checked_mul(*one);
        let denominator = fractions.iter().try_fold(1i128, multiple)?;
        let numerator = |(above, below): &(i128, i128)| i64::try_from(above.checked_mul(denominator / below)?).ok();
        let numerators = fractions.iter().map(numerator).collect::<Option<_>>()?;
        Some(Self { numerators, denominator: u64::try_from(denominator).ok()? })
    }
}

/// Returns the greatest common divisor of two numbers that are not both zero.
fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Evaluates the polynomial at `x`; the lowest coefficient comes first.
pub(crate) fn evaluate(coefficients: &[Scalar], x: u64) -> Scalar {
    let x = Scalar::from_u64(x);
    coefficients.iter().rev().fold(Scalar::from_u64(0), |value, &coefficient| value.mul(x).add(coefficient))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar_of(number: i64) -> Scalar {
        let magnitude = Scalar::from_u64(number.unsigned_abs());
        if number < 0 { Scalar::from_u64(0).sub(magnitude) } else { magnitude }
    }

    fn assert_same(points: &[u64]) {
        let short = ShortCoefficients::at_zero(points).unwrap();
        let over = Scalar::from_u64(short.denominator).inverse();
        let as_scalars: Vec<_> = short.numerators.iter().map(|&numerator| scalar_of(numerator).mul(over)).collect();
        assert_eq!(as_scalars, lagrange_at_zero(points), "{points:?}");
    }

    #[test]
    fn short_coefficients_are_equal() {
        for subset in 1u32..1 << 10 {
            assert_same(&(1..=10).filter(|point| subset >> (point - 1) & 1 == 1).collect::<Vec<u64>>());
        }
        assert_same(&[1, 65_536]);
        assert_same(&[9, 2, 5]);
    }

    #[test]
    fn four_validators_have_small_coefficients() {
        let short = |points: &[u64]| ShortCoefficients::at_zero(points).unwrap();
        assert_eq!(short(&[1, 2, 3]), ShortCoefficients { numerators: vec![3, -3, 1], denominator: 1 });
        assert_eq!(short(&[1, 2, 4]), ShortCoefficients { numerators: vec![8, -6, 1], denominator: 3 });
        assert_eq!(short(&[2, 3, 4]), ShortCoefficients { numerators: vec![6, -8, 3], denominator: 1 });
    }

    #[test]
    fn oversized_coefficients_are_rejected() {
        assert_eq!(ShortCoefficients::at_zero(&(1..=67).collect::<Vec<_>>()), None);
        assert_eq!(ShortCoefficients::at_zero(&(1..200).step_by(3).collect::<Vec<_>>()), None);
        assert_eq!(ShortCoefficients::at_zero(&[1 << 40, (1 << 40) + 1, (1 << 40) + 3, 1 << 50]), None);
    }
}
