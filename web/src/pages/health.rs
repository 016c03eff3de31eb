//! Signers of the newest certificates: a strip of small squares for each validator.

pub(crate) mod texts;

use super::Failure;
use crate::{
    app_state::AppState,
    database::{Read, sql},
    format, links,
};
use corniche_types::SignerBitmap;
use maud::{Markup, html};

/// Number of certificates.
const LAST: i64 = 20;

/// Query for the newest certificates with their signers.
pub const NEWEST: &str = "SELECT height, signers FROM certificates ORDER BY height DESC LIMIT $1";

/// Units of the drawing: a square with its gap, a square, and the vertical position of the line that draws it.
const STEP: usize = 10;
const SQUARE: usize = 8;
const MIDDLE: usize = 5;

/// Signers of the newest certificates.
#[derive(Debug)]
pub struct Health {
    /// Blocks of the certificates, oldest first.
    heights: Vec<u64>,
    /// For each validator: `true` for each certificate that it signed.
    signed: Vec<Vec<bool>>,
}

/// State of a validator according to the newest certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No certificate exists yet.
    Unknown,
    /// It signed at least one. A certificate closes at a quorum, so healthy validators miss some too.
    Signs,
    /// It signed none.
    Silent,
}

impl Health {
    /// Reads the newest certificates from the database.
    pub async fn read(app: &AppState) -> Result<Self, Failure> {
        let committee = app.status().committee.map_or(0, |committee| committee.validators.len());
        let rows = sql(NEWEST).bind(LAST).fetch_all(app.database.readers()).await?;
        let rows = rows.iter().rev();
        let certificates: Vec<_> =
            rows.map(|row| Ok((row.number("height")?, row.bytes("signers")?))).collect::<Result<_, Failure>>()?;
        Ok(Self::of(committee, certificates))
    }

    /// Evaluates certificates with their signers, oldest first.
    fn of(committee: usize, certificates: Vec<(u64, Vec<u8>)>) -> Self {
        let mut health = Self { heights: Vec::new(), signed: vec![Vec::new(); committee] };
        for (height, signers) in certificates {
            let signers = SignerBitmap(signers.into()).signers(committee).unwrap_or_default();
            health.heights.push(height);
            for (index, signed) in health.signed.iter_mut().enumerate() {
                signed.push(signers.iter().any(|signer| usize::from(signer.0) == index));
            }
        }
        health
    }

    fn of_validator(&self, index: u64) -> &[bool] {
        self.signed.get(index as usize).map_or(&[], Vec::as_slice)
    }

    /// Number of these certificates that a validator signed.
    pub fn count(&self, index: u64) -> usize {
        self.of_validator(index).iter().filter(|signed| **signed).count()
    }

    /// State of a validator.
    pub fn verdict(&self, index: u64) -> Verdict {
        match (self.count(index), self.of_validator(index).len()) {
            (_, 0) => Verdict::Unknown,
            (0, _) => Verdict::Silent,
            _ => Verdict::Signs,
        }
    }

    /// Squares of a validator, the newest at the right: filled if it signed, flat if not.
    pub fn strip(&self, index: u64) -> Markup {
        let signed = self.of_validator(index);
        let missed: Vec<_> = signed.iter().zip(&self.heights).filter(|(signed, _)| !**signed).collect();
        let missed: Vec<_> = missed.iter().map(|(_, height)| format::number(**height)).collect();
        let label = match missed.is_empty() {
            true => format!("{} {} {}", self.count(index), texts::OF, signed.len()),
            false => format!("{} {} {}, {} {}", self.count(index), texts::OF, signed.len(), texts::MISSED, missed.join(", ")),
        };
        let width = LAST as usize * STEP;
        html! {
            @if signed.is_empty() { span .note { (texts::NONE_YET) } } @else {
                svg .strip viewBox={ "0 0 " (width) " " (STEP) } role="img" {
                    title { (label) }
                    path .signed d=(runs(signed, true)) {}
                    path .missed d=(runs(signed, false)) {}
                }
            }
        }
    }

    /// Strips of all validators. If there are more than `most`, those that miss the most signatures.
    pub fn overview(&self, most: usize) -> Markup {
        let mut validators: Vec<u64> = (0..self.signed.len() as u64).collect();
        let all = validators.len();
        if all > most {
            validators.sort_by_key(|index| self.count(*index));
            validators.truncate(most);
        }
        html! {
            ul .strips {
                @for index in validators {
                    li { (super::parts::validator(index)) " " (self.strip(index)) " " (tag(self.verdict(index))) }
                }
            }
            @if all > most { p { a href=(links::VALIDATORS) { (texts::MORE) " (" (format::number(all as u64)) ")" } } }
        }
    }
}

/// Tag for a verdict.
pub fn tag(verdict: Verdict) -> Markup {
    match verdict {
        Verdict::Unknown => html! {},
        Verdict::Signs => html! { span .tag.good { (texts::SIGNS) } },
        Verdict::Silent => html! { span .tag.bad { (texts::SILENT) } },
    }
}

/// A line for each run of equal squares; the style sheet cuts it into squares.
fn runs(signed: &[bool], wanted: bool) -> String {
    let mut path = String::new();
    let mut at = 0;
    while at < signed.len() {
        let length = signed[at..].iter().take_while(|signed| **signed == wanted).count();
        if length > 0 {
            let from = (LAST as usize - signed.len() + at) * STEP;
            path.push_str(&format!("M{from} {MIDDLE}H{}", from + (length - 1) * STEP + SQUARE));
        }
        at += length.max(1);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::ValidatorIndex;

    fn health(committee: usize, certificates: &[(u64, &[u16])]) -> Health {
        let bits = |signers: &[u16]| {
            let signers = signers.iter().copied().map(ValidatorIndex);
            SignerBitmap::from_signers(signers, committee).0.to_vec()
        };
        Health::of(committee, certificates.iter().map(|(height, signers)| (*height, bits(signers))).collect())
    }

    #[test]
    fn verdict_follows_newest_certificates() {
        let health = health(4, &[(5, &[0, 1, 2]), (7, &[0, 1, 2]), (8, &[0, 2])]);
        let verdicts = [0, 1, 2, 3, 4].map(|index| health.verdict(index));
        assert_eq!(verdicts, [Verdict::Signs, Verdict::Signs, Verdict::Signs, Verdict::Silent, Verdict::Unknown]);
        assert_eq!([health.count(1), health.count(3), health.count(9)], [2, 0, 0]);
    }

    #[test]
    fn strip_lists_missed_certificates() {
        let strip = health(4, &[(1_005, &[0, 1, 2]), (1_007, &[0, 2, 3]), (1_008, &[0, 1, 2])]).strip(1).into_string();
        assert!(strip.contains("2 of 3, missed 1,007"), "{strip}");
        assert!(strip.contains("class=\"signed\" d=\"M170 5H178M190 5H198\""), "{strip}");
        assert!(strip.contains("class=\"missed\" d=\"M180 5H188\""), "{strip}");
    }

    #[tokio::test]
    async fn newest_certificate_is_the_last_square() {
        let filled = crate::pages::testing::test_app().await;
        let columns = &["height", "first", "signers", "signature", "fault_model", "seen_ms"];
        let mut rows = crate::database::Rows::new("certificates", columns);
        for height in 1..=25u64 {
            // Validator 0 did not sign the last one.
            let signers = vec![if height == 25 { 0b1110 } else { 0b0111 }];
            let (signature, model) = (Vec::new(), String::new());
            rows.push([height.into(), height.into(), signers.into(), signature.into(), model.into(), height.into()]);
        }
        filled.write(rows).await;
        let health = Health::read(&filled.app).await.unwrap();
        assert_eq!(health.heights, (6..=25).collect::<Vec<_>>());
        assert_eq!(health.of_validator(0), [vec![true; 19], vec![false]].concat());
    }

    #[test]
    fn runs_are_drawn_as_one_line() {
        assert_eq!(runs(&[true; 20], true), "M0 5H198");
        assert_eq!(runs(&[true; 20], false), "");
        assert_eq!(runs(&[], true), "");
    }

    #[test]
    fn signers_of_other_committee_are_ignored() {
        let health = Health::of(4, vec![(5, vec![0xff, 0xff])]);
        assert_eq!(health.verdict(0), Verdict::Silent);
    }

    #[test]
    fn overview_prefers_missing_validators() {
        let shown = health(3, &[(5, &[0, 2]), (6, &[0])]).overview(2).into_string();
        let (first, second) = (shown.find("/validator/1").unwrap(), shown.find("/validator/2").unwrap());
        assert!(first < second && !shown.contains("/validator/0"), "{shown}");
    }
}
