//! Plain language in comments and documents, kept by machine: a word list, and the form of commit subjects.
//!
//! Rules, in short: the subject comes first, and the field's word replaces a paraphrase. The list knows only the worst
//! habits. `MAX_FINDINGS` may fall and never rise. A line that is right as it is goes into `ALLOWED`, with its reason.

mod checkout;

use checkout::{lines_of, root};
use std::{collections::BTreeMap, fs, path::Path};

/// Findings that are left, by the first folder of their path. Lower a number with each finding that is mended.
const MAX_FINDINGS: &[(&str, usize)] = &[];

/// Parts of lines that are right as they are.
const ALLOWED: &[&str] = &["never stands still"];

/// Generated or quoted text.
const SKIPPED: &[&str] = &["docs/rpc.md", "docs/explorer-api.md", "sdk/js/viem/src/rpc.ts", "package-lock.json"];

/// Words that no comment, heading or paragraph begins with.
const OPENINGS: &[&str] = &["Of", "What", "Who", "Whom", "Whose", "Which", "Whether", "The same"];

/// Paraphrases.
const WORDS: &[&str] = &["whoever", "whomever", "and is none", "makes no sense", "too great", "told", "stands"];

/// Subjects of commits follow the rule since then.
const SUBJECTS_SINCE: &str = "2026-11-25T22:30:00Z";
const MAX_SUBJECT: usize = 72;

#[test]
fn comments_and_documents_use_plain_language() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let files = lines_of(&["ls-files"]);
    if files.is_empty() {
        return;
    }
    for path in files {
        if SKIPPED.iter().any(|skipped| path.ends_with(skipped)) {
            continue;
        }
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        let folder = path.split('/').next().unwrap_or_default().to_owned();
        for (number, comment, is_first) in prose(&path, &text) {
            if is_finding(comment, is_first) {
                found.entry(folder.clone()).or_default().push(format!("{path}:{number}: {comment}"));
            }
        }
    }
    let mut broken = Vec::new();
    for (folder, findings) in &found {
        let max = MAX_FINDINGS.iter().find(|(name, _)| name == folder).map_or(0, |(_, max)| *max);
        if findings.len() > max {
            let shown = findings.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
            broken.push(format!("{folder}: expected at most {max} findings, got {}; reword one of\n{shown}", findings.len()));
        }
    }
    for (folder, max) in MAX_FINDINGS {
        let count = found.get(*folder).map_or(0, Vec::len);
        if count < *max {
            broken.push(format!("{folder}: only {count} findings are left; lower its number in MAX_FINDINGS from {max}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}

#[test]
fn commit_subjects_have_area_and_length() {
    let subjects = lines_of(&["log", "--no-merges", "--format=%s", &format!("--since={SUBJECTS_SINCE}")]);
    let is_right = |subject: &str| {
        let area = subject.split_once(": ").map_or("", |(area, _)| area);
        subject.chars().count() <= MAX_SUBJECT && !area.is_empty() && !area.contains(' ')
    };
    let wrong: Vec<_> = subjects.into_iter().filter(|subject| !is_right(subject)).collect();
    assert!(wrong.is_empty(), "expected \"area: imperative summary\" of at most {MAX_SUBJECT} characters, got {wrong:#?}");
}

#[test]
fn findings_are_precise() {
    for (text, is_first, expected) in [
        ("What the pool keeps.", true, true),
        ("What the pool keeps.", false, false),
        ("The pool keeps what fits.", true, false),
        ("Offers.", true, false),
        ("Somebody is told of it.", false, true),
        ("Toldo", false, false),
        ("There is none.", false, false),
    ] {
        assert_eq!(is_finding(text, is_first), expected, "{text}");
    }
    let mark = "/".repeat(2);
    let rust = format!("//! Of a\n//! What b\nlet x = 1; {mark} Who\n/// Whom\n");
    let firsts: Vec<_> = prose("a.rs", &rust).into_iter().filter(|(_, _, is_first)| *is_first).map(|(line, ..)| line).collect();
    assert_eq!(firsts, [1, 3, 4]);
    assert_eq!(prose("a.md", "# What\n```\nWho\n```\n- Of\n").len(), 2, "code blocks are no prose");
}

fn is_finding(text: &str, is_first: bool) -> bool {
    if ALLOWED.iter().any(|allowed| text.contains(allowed)) {
        return false;
    }
    let opens = |opening: &str| text.strip_prefix(opening).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
    let lower = text.to_lowercase();
    let is_word = |(at, word): (usize, &str)| {
        let before = lower[..at].chars().next_back();
        let after = lower[at + word.len()..].chars().next();
        [before, after].into_iter().flatten().all(|around| !around.is_alphanumeric() && around != '_' && around != '`')
    };
    is_first && OPENINGS.iter().any(|opening| opens(opening)) || WORDS.iter().any(|word| lower.match_indices(word).any(is_word))
}

/// Comments of source files and prose of documents: line number, text, and whether the line begins a block.
fn prose<'a>(path: &str, text: &'a str) -> Vec<(usize, &'a str, bool)> {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let (mut prose, mut in_block, mut in_code) = (Vec::new(), false, false);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let (comment, begins) = match extension {
            "rs" | "js" | "ts" | "css" => match slashed(line) {
                Some(comment) => (Some(comment), false),
                None => (line.split_once(" // ").map(|(_, comment)| comment), true),
            },
            "md" => {
                if line.starts_with("```") {
                    in_code = !in_code;
                    (None, false)
                } else {
                    let begins = line.starts_with(['#', '-', '*', '|', '>']);
                    let trimmed = line.trim_start_matches(['#', '-', '*', '|', '>', ' ']);
                    ((!in_code && !trimmed.is_empty()).then_some(trimmed), begins)
                }
            }
            "toml" | "sh" => (line.strip_prefix('#').map(|comment| comment.trim_start_matches(['#', ' '])), false),
            _ => (None, false),
        };
        let Some(comment) = comment else {
            in_block = false;
            continue;
        };
        let comment = comment.trim();
        prose.push((index + 1, comment, begins || !in_block));
        in_block = !comment.is_empty() && (!begins || extension == "md");
    }
    prose
}

fn slashed(line: &str) -> Option<&str> {
    ["///", "//!", "//", "/**", "/*", "* "].into_iter().find_map(|mark| line.strip_prefix(mark))
}
