//! Formats numbers, amounts and times for people, and cleans untrusted text.

use alloy_primitives::{U256, U512};

/// Decimals of the chain's own currency.
pub const COIN_DECIMALS: u64 = 18;

/// A whole number with commas.
pub fn number(number: u64) -> String {
    grouped(&number.to_string())
}

fn grouped(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// An amount of a token with this many decimals, exactly: `1,234.5`.
pub fn amount(amount: U256, decimals: u64) -> String {
    let digits = amount.to_string();
    let decimals = decimals as usize;
    if decimals == 0 {
        return grouped(&digits);
    }
    let digits = format!("{digits:0>width$}", width = decimals + 1);
    let (whole, part) = digits.split_at(digits.len() - decimals);
    let part = part.trim_end_matches('0');
    if part.is_empty() { grouped(whole) } else { format!("{}.{part}", grouped(whole)) }
}

/// Wei as gwei.
pub fn gwei(wei: u64) -> String {
    amount(U256::from(wei), 9)
}

/// Bytes with a unit.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => tenths(bytes as f64 / 1_024.0, "KiB"),
        _ => tenths(bytes as f64 / 1_048_576.0, "MiB"),
    }
}

fn tenths(number: f64, unit: &str) -> String {
    format!("{number:.1} {unit}")
}

/// Share in per cent with one decimal. Returns 0 if `whole` is 0.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 })
}

/// Share in per cent with two decimals, rounded down, so that only a full share reads 100 %. A positive share below 0.01 % is
/// shown as `< 0.01 %`. Returns `None` if `whole` is 0 or `part` exceeds it.
pub fn share(part: U256, whole: U256) -> Option<String> {
    if whole.is_zero() || part > whole {
        return None;
    }
    let hundredths: u64 = (part.widening_mul::<256, 4, 512, 8>(U256::from(10_000)) / U512::from(whole)).to();
    Some(match hundredths {
        0 if !part.is_zero() => "< 0.01 %".into(),
        _ => format!("{}.{:02} %", hundredths / 100, hundredths % 100),
    })
}

/// Milliseconds as a duration.
pub fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        60_000..3_600_000 => format!("{} min", ms / 60_000),
        3_600_000..86_400_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} days", ms / 86_400_000),
    }
}

/// Microseconds as milliseconds: two decimals below 10 ms, one below 100 ms, none above.
pub fn micros(us: u64) -> String {
    let ms = us as f64 / 1_000.0;
    match us {
        0..10_000 => format!("{ms:.2} ms"),
        10_000..100_000 => format!("{ms:.1} ms"),
        _ => format!("{} ms", number(us / 1_000)),
    }
}

/// Unix milliseconds as a date and time of day, UTC.
pub fn time(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (year, month, day) = date(seconds / 86_400);
    let of_day = seconds % 86_400;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", of_day / 3_600, of_day / 60 % 60, of_day % 60)
}

/// Unix milliseconds in ISO 8601, UTC, with milliseconds.
pub fn iso(ms: u64) -> String {
    let text = time(ms);
    format!("{}T{}.{:03}Z", &text[..text.len() - 13], &text[text.len() - 12..text.len() - 4], ms % 1_000)
}

/// Days since 1970 as a date.
pub fn day(days: u64) -> String {
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Parses a date in the format of [`day`]. Returns `None` for other text and for dates before 1970.
pub fn parse_day(text: &str) -> Option<u64> {
    let mut parts = text.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, of_month) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&of_month) {
        return None;
    }
    // The inverse of `date`.
    let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_era = year % 400 * 365 + year % 400 / 4 - year % 400 / 100 + (153 * from_march + 2) / 5 + of_month - 1;
    let days = (year / 400 * 146_097 + of_era).checked_sub(719_468)?;
    // Rejects days that the month does not have: they would become another date.
    (day(days) == text).then_some(days)
}

/// Converts days since 1970 to a date of the proleptic Gregorian calendar. An era has 400 years or 146,097 days; years begin in
/// March here.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, of_year - (153 * from_march + 2) / 5 + 1)
}

/// Cleans untrusted text for display in one line: removes control characters, zero-width characters, and characters that change
/// the text direction. Trims white space.
pub fn clean(text: &str) -> String {
    fn is_format(character: char) -> bool {
        matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    }
    text.chars().filter(|character| !character.is_control() && !is_format(*character)).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        assert_eq!(amount(U256::from(1_234_500_000_000_000_000_000u128), 18), "1,234.5");
        assert_eq!(amount(U256::from(1), 18), "0.000000000000000001");
        assert_eq!(amount(U256::ZERO, 18), "0");
        assert_eq!(amount(U256::from(1_000_000), 0), "1,000,000");
        assert_eq!(amount(U256::MAX, 77).len(), 79);
        assert_eq!(gwei(1_000_000_007), "1.000000007");
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(time(1_700_000_000_000), "2023-11-14 22:13:20 UTC");
        assert_eq!(day(19_782), "2024-02-29");
        assert_eq!(iso(1_700_000_000_007), "2023-11-14T22:13:20.007Z");
        assert_eq!(day(11_016), "2000-02-29");
        assert_eq!(day(47_541), "2100-03-01", "2100 is no leap year");
    }

    #[test]
    fn dates_round_trip() {
        for days in (0..60_000).chain([2_000_000, 2_932_896]) {
            assert_eq!(parse_day(&day(days)), Some(days), "{}", day(days));
        }
        for text in [
            "",
            "2026",
            "2026-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-01-00",
            "2026-1-1",
            "1969-12-31",
            "10000-01-01",
            "x-y-z",
        ] {
            assert_eq!(parse_day(text), None, "{text}");
        }
        assert_eq!(parse_day("2026-01-99999999999999999"), None);
        assert_eq!(parse_day(&format!("2026-01-{}", u64::MAX)), None);
    }

    #[test]
    fn share_is_rounded_down() {
        let of = |part: u64, whole: u64| share(U256::from(part), U256::from(whole));
        let found = [of(1, 3), of(2, 3), of(999_999, 1_000_000), of(5, 5), of(0, 5), of(1, 1_000_000)].map(Option::unwrap);
        assert_eq!(found, ["33.33 %", "66.66 %", "99.99 %", "100.00 %", "0.00 %", "< 0.01 %"]);
        assert_eq!(share(U256::MAX >> 1, U256::MAX).unwrap(), "49.99 %");
        assert_eq!(share(U256::MAX, U256::MAX).unwrap(), "100.00 %");
        assert_eq!([of(0, 0), of(6, 5)], [None, None], "of events that do not add up");
    }

    #[test]
    fn sizes_and_durations_have_units() {
        assert_eq!([bytes(1_023), bytes(1_536), bytes(5 << 20)], ["1023 B", "1.5 KiB", "5.0 MiB"]);
        assert_eq!([duration(999), duration(1_500), duration(125_000)], ["999 ms", "1.5 s", "2 min"]);
        assert_eq!([percent(1, 3), percent(0, 0)], ["33.3 %", "0.0 %"]);
        assert_eq!([7, 12_345, 180_900, 2_000_000].map(micros), ["0.01 ms", "12.3 ms", "180 ms", "2,000 ms"]);
    }
}
