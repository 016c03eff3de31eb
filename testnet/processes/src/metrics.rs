//! Metrics of a node, read from `/metrics` in the text format of Prometheus.

use anyhow::Context;
use std::collections::BTreeMap;

/// Values of metrics by name. Series that differ only in labels are added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads the metrics at this URL.
    pub fn read(url: &str) -> anyhow::Result<Self> {
        let text = ureq::get(url).call().and_then(|response| response.into_body().read_to_string());
        Ok(Self::parse(&text.with_context(|| format!("cannot read {url}"))?))
    }

    fn parse(text: &str) -> Self {
        let mut metrics = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let name = series.split('{').next().unwrap_or(series);
            if let Ok(value) = value.parse::<f64>() {
                *metrics.0.entry(name.to_owned()).or_default() += value;
            }
        }
        metrics
    }

    /// `None` if there is no such metric.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Increase of each value since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self(self.0.iter().map(|(name, value)| (name.clone(), value - before.get(name).unwrap_or(0.0))).collect())
    }

    pub fn add(&mut self, other: &Self) {
        other.0.iter().for_each(|(name, value)| *self.0.entry(name.clone()).or_default() += value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_a_name_are_added() {
        let text = "# HELP a A.\n# TYPE a counter\na_total{x=\"1 2\"} 3\na_total{x=\"2\"} 4.5\nb 1\nno value\n# EOF\n";
        let mut metrics = Metrics::parse(text);
        assert_eq!([metrics.get("a_total"), metrics.get("b"), metrics.get("c")], [Some(7.5), Some(1.0), None]);
        assert_eq!(metrics.since(&Metrics::parse("a_total 7")).get("a_total"), Some(0.5));
        metrics.add(&Metrics::parse("b 2\nc 1"));
        assert_eq!([metrics.get("b"), metrics.get("c")], [Some(3.0), Some(1.0)]);
    }
}
