//! Storage layout rules of the SDK: those of Solidity, as defined by its `StorageType` and its macro
//! `#[storage]`. Taken from stylus-sdk 0.9.0 and 0.10.10, which agree.

/// Position of a value: slot, and offset in bytes from the slot's low end, as in Solidity's compiler output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub slot: usize,
    pub offset: usize,
}

/// The two constants of `StorageType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes in a slot, at most 32.
    pub slot_bytes: usize,
    /// Number of whole slots; zero for types that share or fill one slot.
    pub required_slots: usize,
}

impl Size {
    /// Defaults of the trait.
    pub const SLOT: Self = Self { slot_bytes: 32, required_slots: 0 };
    /// `PhantomData`.
    pub const NOTHING: Self = Self { slot_bytes: 0, required_slots: 0 };

    pub fn value(slot_bytes: usize) -> Self {
        Self { slot_bytes, required_slots: 0 }
    }

    pub fn slots(required_slots: usize) -> Self {
        Self { slot_bytes: 32, required_slots }
    }

    /// `None` if the number exceeds a module's 32-bit `usize`.
    pub fn counted(required_slots: usize) -> Option<Self> {
        u32::try_from(required_slots).is_ok().then_some(Self::slots(required_slots))
    }

    pub fn bytes(self) -> usize {
        if self.required_slots > 0 { self.required_slots * 32 } else { self.slot_bytes }
    }
}

/// Computes the layout that `#[storage]` gives a struct: position of each field, and total number of slots. A
/// field shares the slot of the previous one if there is room, from the low end up. A field with whole slots
/// starts a new slot, and nothing shares its last one.
pub fn place(fields: &[Size]) -> (Vec<Position>, usize) {
    let (mut slot, mut space) = (0, 32);
    let mut positions = Vec::with_capacity(fields.len());
    for size in fields {
        if space < size.slot_bytes {
            space = 32;
            slot += 1;
        }
        space -= size.slot_bytes;
        positions.push(Position { slot, offset: 32 - space - size.slot_bytes });
        if size.required_slots > 0 {
            slot += size.required_slots;
            space = 32;
        }
    }
    // An empty struct uses one slot too.
    (positions, if space != 32 || slot == 0 { slot + 1 } else { slot })
}

/// Size of `StorageArray`: as many elements per slot as fit, or whole slots per element.
pub fn array(element: Size, length: usize) -> Option<Size> {
    let density = 32_usize.checked_div(element.slot_bytes)?;
    let reserved = length.checked_mul(element.required_slots)?;
    Size::counted(reserved.max(length.div_ceil(density)))
}

/// Storage types of the SDK without arguments, or with numbers as arguments.
pub fn value(name: &str, numbers: &[usize]) -> Option<(String, Size)> {
    let number = |prefix: &str| name.strip_prefix(prefix)?.parse::<usize>().ok();
    let (label, bits) = match (name, numbers) {
        ("StorageBool", []) => ("bool".into(), 8),
        ("StorageAddress", []) => ("address".into(), 160),
        ("StorageBlockNumber", []) => ("uint64".into(), 64),
        ("StorageBlockHash", []) => ("bytes32".into(), 256),
        ("StorageUint", [bits, _]) => (format!("uint{bits}"), *bits),
        ("StorageSigned", [bits, _]) => (format!("int{bits}"), *bits),
        ("StorageFixedBytes", [bytes]) => (format!("bytes{bytes}"), bytes.checked_mul(8)?),
        (_, []) => match (number("StorageU"), number("StorageI"), number("StorageB")) {
            (Some(bits), _, _) => (format!("uint{bits}"), bits),
            (_, Some(bits), _) => (format!("int{bits}"), bits),
            (_, _, Some(bits)) => (format!("bytes{}", bits / 8), bits),
            _ => return None,
        },
        _ => return None,
    };
    (bits % 8 == 0 && (8..=256).contains(&bits)).then(|| (label, Size::value(bits / 8)))
}

/// Key type of a mapping, with its size in bytes; `numbers` are its arguments.
pub fn key(name: &str, numbers: &[usize]) -> Option<(String, usize)> {
    let number = |prefix: &str| name.strip_prefix(prefix)?.parse::<usize>().ok().filter(|bits| *bits > 0 && *bits <= 256);
    Some(match (name, numbers) {
        ("Address", []) => ("address".into(), 20),
        ("bool", []) => ("bool".into(), 1),
        ("String" | "str", []) => ("string".into(), 32),
        ("Bytes" | "Vec", []) => ("bytes".into(), 32),
        // Width in a wasm32 module.
        ("usize", []) => ("uint32".into(), 4),
        ("isize", []) => ("int32".into(), 4),
        ("BlockNumber", []) => ("uint64".into(), 8),
        ("BlockHash" | "TxHash", []) => ("bytes32".into(), 32),
        ("Selector", []) => ("bytes4".into(), 4),
        ("Uint", [bits, _]) => (format!("uint{bits}"), bits / 8),
        ("Signed", [bits, _]) => (format!("int{bits}"), bits / 8),
        ("FixedBytes", [bytes]) => (format!("bytes{bytes}"), *bytes),
        (_, []) => match (number("U").or_else(|| number("u")), number("I").or_else(|| number("i")), number("B")) {
            (Some(bits), _, _) => (format!("uint{bits}"), bits / 8),
            (_, Some(bits), _) => (format!("int{bits}"), bits / 8),
            (_, _, Some(bits)) => (format!("bytes{}", bits / 8), bits / 8),
            _ => return None,
        },
        _ => return None,
    })
}

/// True if a name may be a key type.
pub fn is_key(name: &str) -> bool {
    matches!(name, "Uint" | "Signed" | "FixedBytes") || key(name, &[]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(slot: usize, offset: usize) -> Position {
        Position { slot, offset }
    }

    #[test]
    fn small_fields_share_slots() {
        let [full, half, byte, address] = [32, 16, 1, 20].map(Size::value);
        let (positions, slots) = place(&[byte, half, half, full, byte, address, byte]);
        assert_eq!(positions, [at(0, 0), at(0, 1), at(1, 0), at(2, 0), at(3, 0), at(3, 1), at(3, 21)]);
        assert_eq!(slots, 4);
    }

    #[test]
    fn large_fields_start_a_slot() {
        let byte = Size::value(1);
        let (positions, slots) = place(&[byte, Size::slots(2), byte, Size::SLOT, Size::slots(1)]);
        assert_eq!(positions, [at(0, 0), at(1, 0), at(3, 0), at(4, 0), at(5, 0)]);
        assert_eq!(slots, 6);
    }

    #[test]
    fn empty_struct_takes_one_slot() {
        let byte = Size::value(1);
        assert_eq!(place(&[byte, Size::NOTHING, byte]), (vec![at(0, 0), at(0, 1), at(0, 1)], 1));
        assert_eq!(place(&[]), (vec![], 1));
        assert_eq!(place(&[Size::NOTHING]).1, 1);
    }

    #[test]
    fn array_elements_are_packed() {
        for (bytes, length, slots) in [(1, 32, 1), (1, 33, 2), (3, 10, 1), (3, 11, 2), (20, 3, 3), (32, 5, 5), (16, 0, 0)] {
            assert_eq!(array(Size::value(bytes), length), Some(Size::slots(slots)), "{length} of {bytes} bytes");
        }
        assert_eq!(array(Size::slots(3), 4), Some(Size::slots(12)));
        assert_eq!(array(Size::NOTHING, 4), None, "the SDK divides by what an element takes");
    }

    #[test]
    fn sdk_types_map_to_solidity() {
        for (name, numbers, label, bytes) in [
            ("StorageU96", &[][..], "uint96", 12),
            ("StorageI8", &[], "int8", 1),
            ("StorageB32", &[], "bytes4", 4),
            ("StorageUint", &[24, 1], "uint24", 3),
            ("StorageFixedBytes", &[20], "bytes20", 20),
        ] {
            assert_eq!(value(name, numbers), Some((label.into(), Size::value(bytes))), "{name}");
        }
        assert_eq!(value("StorageUnknown", &[]), None);
        // Too many bits, or not a multiple of eight.
        for (name, numbers) in [
            ("StorageUint", &[264, 5][..]),
            ("StorageUint", &[12, 1]),
            ("StorageSigned", &[0, 0]),
            ("StorageFixedBytes", &[33]),
            ("StorageFixedBytes", &[usize::MAX]),
            ("StorageU264", &[]),
        ] {
            assert_eq!(value(name, numbers), None, "{name} {numbers:?}");
        }
        assert_eq!(key("B256", &[]), Some(("bytes32".into(), 32)));
        assert_eq!(key("u64", &[]), Some(("uint64".into(), 8)));
        assert_eq!(key("Up", &[]), None);
    }
}
