//! Cursors of lists. The cursor of a list that is ordered by amount contains the numbers and the address of the last row.

use super::Failure;
use crate::texts::list as texts;
use alloy_primitives::{Address, U256};
use serde::Deserialize;

/// Query: start of a list that is ordered by place.
#[derive(Debug, Deserialize)]
pub struct Before {
    /// Only rows with a place below this one.
    pub before: Option<i64>,
}

/// Query: start of a list that is ordered by amount.
#[derive(Debug, Default, Deserialize)]
pub struct Below {
    /// Cursor of the row before the first one: `12-0x…`.
    pub below: Option<String>,
    /// For tokens with ids: shows only this id.
    pub id: Option<String>,
}

impl Below {
    /// Returns the row before the first one. For the first page it is above all rows.
    pub fn row<const N: usize>(&self) -> Result<([U256; N], Address), Failure> {
        match &self.below {
            None => Ok(([U256::MAX; N], Address::repeat_byte(0xff))),
            Some(text) => parse(text).ok_or_else(|| Failure::BadRequest(texts::BAD_CURSOR.into())),
        }
    }

    /// Returns `true` for the first page.
    pub fn is_first(&self) -> bool {
        self.below.is_none()
    }
}

/// Cuts `rows` to the length of a page. Returns the last row of the page if a further page exists; `rows` then has one row more
/// than a page.
pub fn cut<T>(rows: &mut Vec<T>, most: i64) -> Option<&T> {
    let goes_on = rows.len() > most as usize;
    rows.truncate(most as usize);
    rows.last().filter(|_| goes_on)
}

/// Encodes a row as the cursor of the next page.
pub fn below<const N: usize>(numbers: [U256; N], address: Address) -> String {
    let numbers = numbers.map(|number| format!("{number}-"));
    format!("{}{address}", numbers.concat())
}

fn parse<const N: usize>(text: &str) -> Option<([U256; N], Address)> {
    let mut parts = text.split('-');
    let mut numbers = [U256::ZERO; N];
    for number in &mut numbers {
        *number = decimal(parts.next()?)?;
    }
    let address = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some((numbers, address))
}

/// Parses a decimal number of at most 256 bits.
pub fn decimal(text: &str) -> Option<U256> {
    let digits = !text.is_empty() && text.len() <= 78 && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| U256::from_str_radix(text, 10).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_row_means_next_page() {
        for (rows, last) in [(0, None), (2, None), (3, None), (4, Some(2))] {
            let mut list: Vec<i64> = (0..rows).collect();
            assert_eq!(cut(&mut list, 3).copied(), last, "{rows}");
            assert_eq!(list.len() as i64, rows.min(3));
        }
    }

    #[test]
    fn cursor_round_trips() {
        let (numbers, address) = ([U256::MAX, U256::from(7)], Address::repeat_byte(0xab));
        assert_eq!(parse(&below(numbers, address)), Some((numbers, address)));
        assert!(parse::<1>(&below(numbers, address)).is_none(), "too many numbers");
        assert!(parse::<3>(&below(numbers, address)).is_none(), "too few");
    }

    #[test]
    fn invalid_cursor_is_rejected() {
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-0x00",
            "0x1-0x0000000000000000000000000000000000000001",
            "1-0x0000000000000000000000000000000000000001-",
        ] {
            let found = Below { below: Some(text.into()), id: None }.row::<1>();
            assert!(matches!(found, Err(Failure::BadRequest(_))), "{text}");
        }
        assert_eq!([decimal(""), decimal("+1"), decimal(&"9".repeat(78)), decimal(&"0".repeat(79))], [None; 4]);
        assert_eq!(decimal("007"), Some(U256::from(7)));
    }
}
