//! Pages of days: their range, and values for days without a row.

pub(crate) mod texts;

use super::Failure;
use crate::{app_state::AppState, format, links, texts::list};
use maud::{Markup, html};
use serde::Deserialize;
use std::{collections::BTreeMap, ops::RangeInclusive};

/// Maximum and minimum number of days on a page. With the minimum, the page of a young chain also shows empty days before its
/// start.
pub const MAX_DAYS: u64 = 90;
const MIN_DAYS: u64 = 14;

/// Query: last day of the page.
#[derive(Debug, Default, Deserialize)]
pub struct Until {
    /// Date in the format of [`format::day`]. Default: the newest day.
    until: Option<String>,
}

impl Until {
    #[cfg(test)]
    pub(crate) fn of(date: Option<&str>) -> Self {
        Self { until: date.map(str::to_owned) }
    }

    /// Returns `true` for the newest page.
    pub fn is_newest(&self) -> bool {
        self.until.is_none()
    }

    /// The last day of the page.
    pub fn day(&self, app: &AppState) -> Result<u64, Failure> {
        let newest = app.today();
        let Some(date) = &self.until else { return Ok(newest) };
        let day = format::parse_day(date).ok_or_else(|| Failure::BadRequest(texts::BAD_DATE.into()))?;
        Ok(day.min(newest))
    }
}

/// Days of a page that ends at `last`. `oldest` is the day of the oldest row found.
pub fn window(last: u64, oldest: Option<u64>) -> RangeInclusive<u64> {
    let first = oldest.unwrap_or(last).clamp(last.saturating_sub(MAX_DAYS - 1), last.saturating_sub(MIN_DAYS - 1));
    first..=last
}

/// Value of each day. For a day without a row, `idle` derives it from the value of the day before.
pub fn fill<T: Clone + Default>(window: RangeInclusive<u64>, rows: &BTreeMap<u64, T>, idle: impl Fn(&T) -> T) -> Vec<T> {
    let before = rows.range(..*window.start()).next_back().map(|(_, row)| row.clone()).unwrap_or_default();
    let next = |before: &mut T, day: u64| {
        *before = rows.get(&day).cloned().unwrap_or_else(|| idle(before));
        Some(before.clone())
    };
    window.scan(before, next).collect()
}

/// Links to earlier days, if there are any, and to the newest days.
pub fn pages(list: &str, until: &Until, window: &RangeInclusive<u64>, oldest: Option<u64>) -> Markup {
    let earlier = oldest.is_some_and(|oldest| oldest < *window.start());
    html! {
        nav .pages aria-label=(list::PAGES) {
            @if !until.is_newest() { a href=(list) { (texts::NEWEST) } }
            @if earlier { a rel="next" href=(links::until(list, &format::day(window.start() - 1))) { (texts::EARLIER) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_per_page_are_bounded() {
        assert_eq!(window(1_000, None), 987..=1_000);
        assert_eq!(window(1_000, Some(999)), 987..=1_000, "a young chain");
        assert_eq!(window(1_000, Some(950)), 950..=1_000);
        assert_eq!(window(1_000, Some(5)), 911..=1_000, "an old one");
        assert_eq!(window(3, Some(0)), 0..=3);
    }

    #[test]
    fn days_without_rows_are_filled() {
        let rows = BTreeMap::from([(5, (50, 2)), (8, (80, 3))]);
        // The supply stays the same, and nothing is transferred.
        let found = fill(7..=9, &rows, |(supply, _)| (*supply, 0));
        assert_eq!(found, [(50, 0), (80, 3), (80, 0)]);
        assert_eq!(fill(3..=5, &rows, |(supply, _)| (*supply, 0)), [(0, 0), (0, 0), (50, 2)]);
    }
}
