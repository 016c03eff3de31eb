//! Certified headers of this chain.

use alloy_primitives::{keccak256, Address, B256};

/// The hash of the header of block `number`, if it is available: in block N from N − 8,255 to N − 65. A quorum of the validators
/// certified each of them before this block ran, so they are final.
///
/// Costs 12 gas and a load from storage: 2,100 the first time in a transaction, 100 after that.
pub fn certified_hash(number: u64) -> Option<B256> {
    host::certified_hash(number)
}

#[cfg(not(target_arch = "wasm32"))]
pub use host::set_certified_hash;

/// A verified header of this chain. Its fields include the roots for proofs of the state, of a block's transactions or of its
/// receipts, and the block's randomness.
///
/// The caller passes the header in RLP, as returned by `debug_getRawHeader`, and need not be trusted.
///
/// ```
/// use corniche_contract::{CertifiedHeader, HeaderError};
///
/// /// Randomness of the block that a bet names.
/// fn drawn(bet_on: u64, rlp: &[u8]) -> Result<[u8; 32], HeaderError> {
///     let header = CertifiedHeader::check(rlp)?;
///     // Every certified header is valid; this is the one of the bet.
///     assert_eq!(header.number, bet_on);
///     Ok(header.randomness.0)
/// }
/// # assert_eq!(drawn(1, b"anything"), Err(HeaderError::Malformed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertifiedHeader {
    pub hash: B256,
    pub parent_hash: B256,
    pub number: u64,
    /// Seconds since 1970.
    pub timestamp: u64,
    /// Receiver of the block's tips.
    pub beneficiary: Address,
    /// State root after the block: of this chain's own tree, not of Ethereum's.
    pub state_root: B256,
    pub transactions_root: B256,
    pub receipts_root: B256,
    /// `mixHash`: the result of [`block_randomness`](crate::block_randomness) in that block.
    pub randomness: B256,
}

/// Reasons why bytes are not a certified header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Not a header of this chain in canonical RLP.
    Malformed,
    /// Too new or too old for its hash to be available; see [`certified_hash`].
    OutOfReach { number: u64 },
    /// The block with this number has another header.
    Mismatch { number: u64 },
}

impl CertifiedHeader {
    /// Decodes a header and compares its hash with the chain's.
    pub fn check(rlp: &[u8]) -> Result<Self, HeaderError> {
        let header = decode(rlp).ok_or(HeaderError::Malformed)?;
        let number = header.number;
        match certified_hash(number) {
            None => Err(HeaderError::OutOfReach { number }),
            Some(hash) if hash != header.hash => Err(HeaderError::Mismatch { number }),
            Some(_) => Ok(header),
        }
    }
}

/// Requires the sixteen fields of London's headers in their order, and nothing after them. Does not check the hash.
fn decode(rlp: &[u8]) -> Option<CertifiedHeader> {
    let mut whole = Fields(rlp);
    let mut fields = Fields(whole.next(0xc0)?);
    let parent_hash = fields.word()?;
    let _ommers = fields.word()?;
    let beneficiary = Address::new(fields.bytes()?);
    let [state_root, transactions_root, receipts_root] = [fields.word()?, fields.word()?, fields.word()?];
    let _logs_bloom: [u8; 256] = fields.bytes()?;
    let [_difficulty, number, _gas_limit, _gas_used, timestamp] =
        [fields.number()?, fields.number()?, fields.number()?, fields.number()?, fields.number()?];
    let _extra_data = fields.next(0x80)?;
    let randomness = fields.word()?;
    let _nonce: [u8; 8] = fields.bytes()?;
    let _base_fee = fields.number()?;
    let hash = keccak256(rlp);
    (fields.0.is_empty() && whole.0.is_empty()).then_some(CertifiedHeader {
        hash,
        parent_hash,
        number,
        timestamp,
        beneficiary,
        state_root,
        transactions_root,
        receipts_root,
        randomness,
    })
}

/// RLP that is not read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Content of the next item: of a list if `kind` is 0xc0, of bytes if it is 0x80. Each has one valid encoding.
    fn next(&mut self, kind: u8) -> Option<&'a [u8]> {
        let first = *self.0.first()?;
        if kind == 0x80 && first < 0x80 {
            return self.take(1);
        }
        self.take(1)?;
        let length = match first.checked_sub(kind)? {
            short @ 0..=55 => usize::from(short),
            // A header's length fits in two bytes.
            56 => usize::from(self.take(1)?[0]),
            57 => match self.take(2)? {
                [0, _] => return None,
                [high, low] => usize::from(u16::from_be_bytes([*high, *low])),
                _ => return None,
            },
            _ => return None,
        };
        let long = first - kind > 55;
        let content = self.take(length)?;
        let is_its_own = kind == 0x80 && length == 1 && content[0] < 0x80;
        (!is_its_own && (!long || length > 55)).then_some(content)
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.next(0x80)?.try_into().ok()
    }

    fn word(&mut self) -> Option<B256> {
        self.bytes().map(B256::new)
    }

    fn number(&mut self) -> Option<u64> {
        let bytes = self.next(0x80)?;
        if bytes.len() > 8 || bytes.first() == Some(&0) {
            return None;
        }
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

#[cfg(target_arch = "wasm32")]
mod host {
    use alloy_primitives::B256;

    #[link(wasm_import_module = "corniche")]
    extern "C" {
        #[link_name = "certified_hash"]
        fn load(number: i64, destination: *mut u8) -> i32;
    }

    pub fn certified_hash(number: u64) -> Option<B256> {
        let mut hash = B256::ZERO;
        // SAFETY: the call writes 32 bytes or none, and the buffer has 32.
        let missing = unsafe { load(number as i64, hash.as_mut_ptr()) };
        (missing == 0).then_some(hash)
    }
}

/// The SDK's `TestVM` has no headers, so tests set them.
#[cfg(not(target_arch = "wasm32"))]
mod host {
    use alloc::collections::BTreeMap;
    use alloy_primitives::B256;
    use std::cell::RefCell;

    thread_local! {
        static HASHES: RefCell<BTreeMap<u64, B256>> = const { RefCell::new(BTreeMap::new()) };
    }

    pub fn certified_hash(number: u64) -> Option<B256> {
        HASHES.with_borrow(|hashes| hashes.get(&number).copied())
    }

    /// For native tests: sets the result of [`certified_hash`](super::certified_hash) for this number on this thread. The default
    /// is none, and a zero hash restores it. The range of block numbers is not checked.
    pub fn set_certified_hash(number: u64, hash: B256) {
        HASHES.with_borrow_mut(|hashes| match hash.is_zero() {
            true => hashes.remove(&number),
            false => hashes.insert(number, hash),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{address, b256, hex, U256};
    use proptest::prelude::*;

    /// A header of this chain, as returned by `debug_getRawHeader`, and its fields.
    const RAW: &[u8] = &hex!(
        "f9021ca060c092e9f1f7fab8e383cf39619d4c250f5101cdba995e1d13f7223377c031cda01dcc4de8dec75d7aab85b567b6ccd41ad312"
        "451b948a7413f0a142fd40d49347945a4d85530e0a10e7af774c7e7c28c3e39a5a9380a0e6dfd1926b1782c41c5be2d1d53493d49c6b66"
        "3bf01905d18770c815625647fba0d75c72601f6a8cb9564a76954edcdc6f93a099974c8708ea875f174edae70b58a0f78dfb743fbd92ad"
        "e140711c8bbc542b5e307f0ab7984eff35d751969fe57efab9010000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "000000000000000080018401c9c380825208846b038271a0178b7f7b703f4b32e8bde820cc44dbfaffc38808f7996b38e034823922fa34"
        "7da0432dc1af74120c5f41147a6eac26fe25a5a8a97b609ab3c6381b2cc1e2c6f020880000000000000000843b9aca00"
    );

    fn string(bytes: &[u8]) -> Vec<u8> {
        let head = match bytes {
            [byte] if *byte < 0x80 => vec![],
            _ if bytes.len() < 56 => vec![0x80 + bytes.len() as u8],
            _ if bytes.len() < 256 => vec![0xb8, bytes.len() as u8],
            _ => vec![0xb9, (bytes.len() >> 8) as u8, bytes.len() as u8],
        };
        [&head[..], bytes].concat()
    }

    fn number(number: u64) -> Vec<u8> {
        string(&U256::from(number).to_be_bytes_trimmed_vec())
    }

    fn list(items: &[Vec<u8>]) -> Vec<u8> {
        let payload = items.concat();
        [&[0xf9, (payload.len() >> 8) as u8, payload.len() as u8][..], &payload].concat()
    }

    /// The fields of a header with these numbers and extra data, all of them different.
    fn fields(height: u64, timestamp: u64, extra: &[u8]) -> Vec<Vec<u8>> {
        let word = |byte: u8| string(&[byte; 32]);
        vec![
            word(1),
            word(2),
            string(&[3; 20]),
            word(4),
            word(5),
            word(6),
            string(&[7; 256]),
            number(0),
            number(height),
            number(30_000_000),
            number(21_000),
            number(timestamp),
            string(extra),
            word(8),
            string(&[0; 8]),
            number(1_000),
        ]
    }

    fn says(rlp: &[u8], height: u64, timestamp: u64) -> CertifiedHeader {
        let word = B256::repeat_byte;
        CertifiedHeader {
            hash: keccak256(rlp),
            parent_hash: word(1),
            number: height,
            timestamp,
            beneficiary: Address::repeat_byte(3),
            state_root: word(4),
            transactions_root: word(5),
            receipts_root: word(6),
            randomness: word(8),
        }
    }

    #[test]
    fn decodes_chain_header() {
        let header = decode(RAW).unwrap();
        assert_eq!(
            header,
            CertifiedHeader {
                hash: b256!("69c79b5fd69dcc8a7f4bc141dcf3f3832fa2ae1cb31bc3f440b3272136fd478d"),
                parent_hash: b256!("60c092e9f1f7fab8e383cf39619d4c250f5101cdba995e1d13f7223377c031cd"),
                number: 1,
                timestamp: 1795392113,
                beneficiary: address!("5a4d85530e0a10e7af774c7e7c28c3e39a5a9380"),
                state_root: b256!("e6dfd1926b1782c41c5be2d1d53493d49c6b663bf01905d18770c815625647fb"),
                transactions_root: b256!("d75c72601f6a8cb9564a76954edcdc6f93a099974c8708ea875f174edae70b58"),
                receipts_root: b256!("f78dfb743fbd92ade140711c8bbc542b5e307f0ab7984eff35d751969fe57efa"),
                randomness: b256!("432dc1af74120c5f41147a6eac26fe25a5a8a97b609ab3c6381b2cc1e2c6f020"),
            }
        );
    }

    #[test]
    fn only_known_hashes_are_certified() {
        let rlp = list(&fields(70, 1_000, &[9; 32]));
        assert_eq!(CertifiedHeader::check(&rlp), Err(HeaderError::OutOfReach { number: 70 }));
        set_certified_hash(71, keccak256(&rlp));
        assert_eq!(CertifiedHeader::check(&rlp), Err(HeaderError::OutOfReach { number: 70 }), "of another block");
        set_certified_hash(70, B256::repeat_byte(1));
        assert_eq!(CertifiedHeader::check(&rlp), Err(HeaderError::Mismatch { number: 70 }));
        set_certified_hash(70, keccak256(&rlp));
        assert_eq!(CertifiedHeader::check(&rlp), Ok(says(&rlp, 70, 1_000)));
        set_certified_hash(70, B256::ZERO);
        assert_eq!(certified_hash(70), None);
    }

    /// Each value has one encoding: any other encoding of these contents is refused.
    #[test]
    fn rejects_other_encodings() {
        let good = fields(70, 1_000, &[9; 32]);
        assert!(decode(&list(&good)).is_some());
        let with = |at: usize, field: Vec<u8>| {
            let mut fields = good.clone();
            fields[at] = field;
            list(&fields)
        };
        let long = |bytes: &[u8]| [&[0xb8, bytes.len() as u8][..], bytes].concat();
        for (at, field, why) in [
            (8, vec![0x81, 70], "a byte that is its own encoding"),
            (8, vec![0x82, 0, 200], "a zero in front"),
            (8, vec![0], "zero as a byte"),
            (8, string(&[1; 9]), "a number of nine bytes"),
            (8, vec![0xc0], "a list for a number"),
            (0, long(&[1; 32]), "a length of its own for 32 bytes"),
            (0, string(&[1; 31]), "31 bytes"),
            (0, string(&[1; 33]), "33 bytes"),
            (2, string(&[3; 32]), "an address of 32 bytes"),
            (6, [&[0xba, 0, 1, 0][..], &[7; 256]].concat(), "a length of three bytes"),
            (6, [&[0xb9, 0, 255][..], &[7; 255]].concat(), "a length with a zero in front"),
            (12, list(&[]), "a list for bytes"),
            (14, string(&[0; 7]), "a nonce of seven bytes"),
        ] {
            assert_eq!(decode(&with(at, field)), None, "{why}");
        }
        let whole = list(&good);
        assert_eq!(decode(&[&whole[..], &[0]].concat()), None, "something behind it");
        assert_eq!(decode(&list(&[&good[..], &[number(1)]].concat())), None, "a seventeenth field");
        assert_eq!(decode(&list(&good[..15])), None, "fifteen fields");
        assert_eq!(decode(&[&[0xfa, 0][..], &whole[1..]].concat()), None, "a length of three bytes");
        assert_eq!(decode(&[&[0xb9][..], &whole[1..]].concat()), None, "bytes for a list");
        assert_eq!(decode(&[]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn decodes_every_header(height in any::<u64>(), timestamp in any::<u64>(), extra in prop::collection::vec(any::<u8>(), 0..300)) {
            let rlp = list(&fields(height, timestamp, &extra));
            prop_assert_eq!(decode(&rlp), Some(says(&rlp, height, timestamp)));
        }

        /// Truncated, changed or random bytes never panic, and only complete headers are accepted.
        #[test]
        fn nothing_panics(cut in 0usize..700, at in 0usize..700, byte in any::<u8>(), noise in prop::collection::vec(any::<u8>(), 0..64)) {
            let rlp = list(&fields(70, 1_000, &[9; 32]));
            if cut < rlp.len() {
                prop_assert_eq!(decode(&rlp[..cut]), None);
            }
            let mut changed = rlp;
            if let Some(there) = changed.get_mut(at) {
                *there = byte;
            }
            let _ = decode(&changed);
            let _ = decode(&noise);
        }
    }
}
