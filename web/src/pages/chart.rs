//! Bar charts, drawn by the server. They need no script and scale with the page.
//!
//! A screen reader reads a chart as one picture with its first, last and highest bar. A page with a chart contains the same
//! numbers in a table.

pub(crate) mod texts;

use crate::{format, texts::list};
use alloy_primitives::U256;
use maud::{Markup, html};

/// Units of the drawing: a bar with its gap, the gap, and the total height. The style sheet scales them.
const STEP: usize = 10;
const GAP: usize = 2;
const HEIGHT: u64 = 100;

/// Draws bars, oldest first. `label` returns the name and the value of a bar.
pub fn bars(caption: &str, values: &[u64], label: impl Fn(usize) -> String) -> Markup {
    let values: Vec<U256> = values.iter().copied().map(U256::from).collect();
    draw(caption, &values, label, |top| format::amount(top, 0))
}

/// Like [`bars`], with a unit on the axis.
pub fn measured(caption: &str, unit: &str, values: &[u64], label: impl Fn(usize) -> String) -> Markup {
    let values: Vec<U256> = values.iter().copied().map(U256::from).collect();
    draw(caption, &values, label, |top| format!("{} {unit}", format::amount(top, 0)))
}

/// Like [`bars`], for amounts of a token.
pub fn amounts(caption: &str, values: &[U256], decimals: u64, label: impl Fn(usize) -> String) -> Markup {
    draw(caption, values, label, |top| format::amount(top, decimals))
}

fn draw(caption: &str, values: &[U256], label: impl Fn(usize) -> String, shown: impl Fn(U256) -> String) -> Markup {
    let highest = (0..values.len()).max_by_key(|at| values[*at]);
    let Some(highest) = highest else {
        return html! { figure .bars { figcaption { (caption) } p .note { (list::EMPTY) } } };
    };
    let (top, width) = (ceiling(values[highest]), values.len() * STEP);
    let (first, last) = (label(0), label(values.len() - 1));
    let description =
        format!("{caption}. {} {first}. {} {last}. {} {}.", texts::FIRST, texts::LAST, texts::HIGHEST, label(highest));
    html! {
        figure .bars {
            figcaption { (caption) }
            // Hidden from screen readers, because the picture's label contains it.
            p .top aria-hidden="true" { (shown(top)) }
            svg .chart viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(description) {
                path .grid d={ "M0 0H" (width) "M0 " (HEIGHT / 2) "H" (width) "M0 " (HEIGHT) "H" (width) } {}
                @for (at, value) in values.iter().enumerate() {
                    @let height = height(*value, top);
                    @if height > 0 {
                        rect x=(at * STEP) y=(HEIGHT - height) width=(STEP - GAP) height=(height) { title { (label(at)) } }
                    }
                }
            }
            p .ends aria-hidden="true" { span { (first) } @if values.len() > 1 { span { (last) } } }
        }
    }
}

/// Possible ends of an axis, in tenths of a power of ten.
const STEPS: [u64; 11] = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100];

/// End of an axis: the next round number, at least 1.
fn ceiling(most: U256) -> U256 {
    let ten = U256::from(10);
    if most <= ten {
        return most.max(U256::ONE);
    }
    let tenth = ten.pow(U256::from(most.to_string().len() - 2));
    // The largest numbers have no round number above them in 256 bits.
    STEPS.iter().filter_map(|step| tenth.checked_mul(U256::from(*step))).find(|top| *top >= most).unwrap_or(most)
}

/// Height of a bar on an axis that ends at `top`. Every positive value has a height of at least 1.
fn height(value: U256, top: U256) -> u64 {
    // Shifts both values, so that the product does not overflow.
    let shift = top.bit_len().saturating_sub(256 - 8);
    let (scaled, top) = ((value >> shift) * U256::from(HEIGHT), top >> shift);
    let height = scaled.div_ceil(top).max(U256::from(u8::from(!value.is_zero())));
    height.min(U256::from(HEIGHT)).to()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends_at(most: u64) -> u64 {
        ceiling(U256::from(most)).to()
    }

    #[test]
    fn axis_ends_at_round_number() {
        for (most, top) in [(0, 1), (1, 1), (7, 7), (10, 10), (11, 12), (13, 15), (19, 20), (21, 25), (99, 100), (100, 100)] {
            assert_eq!(ends_at(most), top, "{most}");
        }
        assert_eq!([ends_at(101), ends_at(1_234), ends_at(61_000), ends_at(999_999)], [120, 1_500, 80_000, 1_000_000]);
        assert_eq!(ceiling(U256::MAX >> 1), U256::from(60) * U256::from(10).pow(U256::from(75)), "above 5.79 * 10^76");
        assert_eq!(ceiling(U256::MAX), U256::MAX, "no round number is above it");
    }

    #[test]
    fn bars_scale_with_the_axis() {
        let heights = |values: &[u64], top: u64| -> Vec<u64> {
            values.iter().map(|value| height(U256::from(*value), U256::from(top))).collect()
        };
        assert_eq!(heights(&[0, 1, 5, 10], 10), [0, 10, 50, 100]);
        assert_eq!(heights(&[1, 500_000, 1_000_000], 1_000_000), [1, 50, 100], "one of a million is seen");
        assert_eq!(height(U256::MAX, U256::MAX), 100);
        assert_eq!(height(U256::MAX >> 1, U256::MAX), 50);
        assert_eq!(height(U256::ONE, U256::MAX), 1);
    }

    #[test]
    fn chart_has_accessible_name() {
        let values = [3, 40, 0];
        let drawn = bars("Transactions", &values, |at| format!("day {at}: {}", values[at])).into_string();
        let description = "Transactions. First: day 0: 3. Last: day 2: 0. Highest: day 1: 40.";
        assert!(drawn.contains(&format!("aria-label=\"{description}\"")), "{drawn}");
        assert!(drawn.contains("<p class=\"top\" aria-hidden=\"true\">40</p>"), "{drawn}");
        assert_eq!(drawn.matches("<rect").count(), 2, "nothing has no bar");
        assert!(!drawn.contains("style="), "the policy of the pages forbids it");
    }

    #[test]
    fn caption_is_escaped() {
        let drawn = bars("\"><script>", &[1], |_| "</title><script>".into()).into_string();
        assert!(!drawn.contains("<script>"), "{drawn}");
        assert!(bars("Nothing", &[], |_| String::new()).into_string().contains(list::EMPTY));
    }
}
