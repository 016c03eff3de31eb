//! Pages that go back day by day: which days they show, and how those without a row come between the others.

use super::Failure;
use crate::{
    format,
    indexer::digest::DAY_MS,
    links,
    site::Site,
    words::{list, statistics as words},
};
use maud::{Markup, html};
use serde::Deserialize;
use std::{collections::BTreeMap, ops::RangeInclusive};

/// Most days of one page, and fewest, so that the first days of a chain do not look like all there is.
pub const MOST: u64 = 90;
const LEAST: u64 = 14;

/// Where a page of days ends.
#[derive(Debug, Default, Deserialize)]
pub struct Until {
    /// A date, as addresses of pages have it; the newest day without.
    until: Option<String>,
}

impl Until {
    #[cfg(test)]
    pub(crate) fn of(date: Option<&str>) -> Self {
        Self { until: date.map(str::to_owned) }
    }

    /// Whether it is the newest page.
    pub fn is_newest(&self) -> bool {
        self.until.is_none()
    }

    /// The last day of the page.
    pub fn day(&self, site: &Site) -> Result<u64, Failure> {
        let newest = today(site);
        let Some(date) = &self.until else { return Ok(newest) };
        let day = format::parse_day(date).ok_or_else(|| Failure::BadRequest(words::BAD_DATE.into()))?;
        Ok(day.min(newest))
    }
}

/// The day of the newest block: days are of the chain's time, which is UTC.
pub fn today(site: &Site) -> u64 {
    site.now().indexed.map_or(0, |(_, time_ms)| time_ms / DAY_MS)
}

/// The days of a page that ends at `last`, when the rows that were found begin at `oldest`.
pub fn window(last: u64, oldest: Option<u64>) -> RangeInclusive<u64> {
    let first = oldest.unwrap_or(last).clamp(last.saturating_sub(MOST - 1), last.saturating_sub(LEAST - 1));
    first..=last
}

/// What was on each day; on those without a row, what `idle` makes of the day before.
pub fn fill<T: Clone + Default>(window: RangeInclusive<u64>, rows: &BTreeMap<u64, T>, idle: impl Fn(&T) -> T) -> Vec<T> {
    let before = rows.range(..*window.start()).next_back().map(|(_, row)| row.clone()).unwrap_or_default();
    let next = |before: &mut T, day: u64| {
        *before = rows.get(&day).cloned().unwrap_or_else(|| idle(before));
        Some(before.clone())
    };
    window.scan(before, next).collect()
}

/// The way to earlier days, if there are any, and back.
pub fn pages(list: &str, until: &Until, window: &RangeInclusive<u64>, oldest: Option<u64>) -> Markup {
    let earlier = oldest.is_some_and(|oldest| oldest < *window.start());
    html! {
        nav .pages aria-label=(list::PAGES) {
            @if !until.is_newest() { a href=(list) { (words::NEWEST) } }
            @if earlier { a rel="next" href=(links::until(list, &format::day(window.start() - 1))) { (words::EARLIER) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_so_many_days() {
        assert_eq!(window(1_000, None), 987..=1_000);
        assert_eq!(window(1_000, Some(999)), 987..=1_000, "a young chain");
        assert_eq!(window(1_000, Some(950)), 950..=1_000);
        assert_eq!(window(1_000, Some(5)), 911..=1_000, "an old one");
        assert_eq!(window(3, Some(0)), 0..=3);
    }

    #[test]
    fn days_without_rows_come_between() {
        let rows = BTreeMap::from([(5, (50, 2)), (8, (80, 3))]);
        // A supply stays what it was, and nothing is moved.
        let found = fill(7..=9, &rows, |(supply, _)| (*supply, 0));
        assert_eq!(found, [(50, 0), (80, 3), (80, 0)]);
        assert_eq!(fill(3..=5, &rows, |(supply, _)| (*supply, 0)), [(0, 0), (0, 0), (50, 2)]);
    }
}
