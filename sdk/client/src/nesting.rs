//! Parses JSON that is nested deeper than serde_json's limit: a trace has two levels for each call, and calls may be
//! nested 256 deep.

use serde::de::{DeserializeOwned, Error};
use std::thread;

/// Most levels: two for each call, and some around and inside them. Deeper JSON is rejected, as by the parser's own
/// limit.
const MAX_DEPTH: usize = 600;

/// Stack of the parsing thread: 50 KiB for each level, many times what a build without optimization needs.
const STACK_BYTES: usize = 32 << 20;

/// Parses like [`serde_json::from_str`], with a deeper limit.
pub fn parse<R: DeserializeOwned + Send>(text: &str) -> Result<R, serde_json::Error> {
    match serde_json::from_str(text) {
        // The parser reports exceeding its recursion limit as a syntax error.
        Err(error) if error.is_syntax() && nesting(text) <= MAX_DEPTH => {}
        answer => return answer,
    }
    let parse = || {
        let mut parser = serde_json::Deserializer::from_str(text);
        parser.disable_recursion_limit();
        let value = R::deserialize(&mut parser)?;
        parser.end().map(|()| value)
    };
    thread::scope(|scope| {
        let parser =
            thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, parse).map_err(serde_json::Error::custom)?;
        parser.join().unwrap_or_else(|_| Err(serde_json::Error::custom("the parser panicked")))
    })
}

/// Returns the largest number of brackets that are open at once.
fn nesting(text: &str) -> usize {
    let (mut open, mut most, mut quoted, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                open += 1;
                most = most.max(open);
            }
            b'}' | b']' if !quoted => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Frame {
        #[serde(default)]
        calls: Vec<Frame>,
    }

    fn frames(deep: usize) -> String {
        (1..deep).fold("{}".to_owned(), |inner, _| format!("{{\"calls\":[{inner}]}}"))
    }

    fn depth(frame: &Frame) -> usize {
        1 + frame.calls.iter().map(depth).max().unwrap_or(0)
    }

    #[test]
    fn deepest_call_traces_parse() {
        for deep in [1, 60, 63, 64, 256, 257] {
            let frame: Frame = parse(&frames(deep)).unwrap();
            assert_eq!(depth(&frame), deep);
        }
    }

    #[test]
    fn deeper_nesting_is_rejected() {
        for text in [frames(400), frames(100_000), "[".repeat(1 << 20)] {
            assert!(parse::<Frame>(&text).is_err());
        }
        assert!(parse::<Frame>(&format!("{}]", frames(256))).is_err(), "something behind it");
    }

    #[test]
    fn brackets_in_strings_are_ignored() {
        assert_eq!(nesting(r#"{"a": "[[[{\"{[", "b": [[]], "c\\": {}}"#), 3);
        assert_eq!(nesting("1"), 0);
    }
}
