//! Parts of a chart's accessible name.

pub const FIRST: &str = "First:";
pub const LAST: &str = "Last:";
pub const HIGHEST: &str = "Highest:";
