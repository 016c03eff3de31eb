use std::{
    fs,
    path::{Path, PathBuf},
};

/// Files without texts of their own: pages, scripts and other code that responds to browsers. Texts are in modules `texts`.
fn sources() -> Vec<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut left = ["pages", "assets", "search.rs", "server.rs"].map(|name| source.join(name)).to_vec();
    let mut files = Vec::new();
    while let Some(path) = left.pop() {
        if ["tests.rs", "testing.rs", "texts", "texts.rs"].iter().any(|name| path.ends_with(name)) {
            continue;
        }
        match path.extension().and_then(|kind| kind.to_str()) {
            Some("rs" | "js") => files.push(path),
            Some(_) => {}
            None if path.is_file() => {}
            None => left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
        }
    }
    files
}

/// String literals of a source file. Scripts use several kinds of quotes, so for them it is all code without comments.
fn texts(source: &str, is_script: bool) -> Vec<String> {
    let own = source.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let code = own.lines().filter(|line| !["//", "/*"].iter().any(|comment| line.trim_start().starts_with(comment)));
    let code = code.map(|line| line.split(" // ").next().and_then(|line| line.split(" /* ").next()).unwrap_or_default());
    let code = code.collect::<Vec<_>>().join("\n").replace("\\\"", "'");
    match is_script {
        true => vec![code],
        false => code.split('"').skip(1).step_by(2).map(str::to_owned).collect(),
    }
}

/// Returns `true` for text with four consecutive words. No query, picture or line of code has them.
fn is_sentence(text: &str) -> bool {
    let fits = |(at, letter): (usize, char)| match at {
        0 => letter.is_ascii_alphabetic(),
        _ => letter.is_ascii_lowercase() || letter == '\'',
    };
    let is_word = |word: &&str| word.chars().enumerate().all(fits);
    let words: Vec<_> = text.split_whitespace().collect();
    words.windows(4).any(|four| four.iter().all(is_word))
}

#[test]
fn sentences_are_distinguished_from_code() {
    assert!(is_sentence("A block is named by its number."));
    assert!(!is_sentence("SELECT place, hash FROM transactions t WHERE t.place < $1 ORDER BY place DESC LIMIT $2"));
    assert!(!is_sentence("for (const part of parts) part.hidden = false;"));
    assert_eq!(texts("// a \"b\"\nlet c = \"d \\\"e\\\"\"; // \"f\"", false), ["d 'e'"]);
}

/// Returns `true` for part of a sentence: text with a word of at least three letters and a space at one end.
fn is_piece(text: &str) -> bool {
    let outside: String = text.split('{').map(|part| part.split_once('}').map_or(part, |(_, after)| after)).collect();
    let has_word = outside.split(|letter: char| !letter.is_ascii_alphabetic()).any(|word| word.len() >= 3);
    text.trim() != text && has_word
}

#[test]
fn sentence_fragments_are_detected() {
    assert!([" gwei", " --value {}", "{} blocks "].iter().all(|text| is_piece(text)));
    assert!(
        ["gwei", "of ", ", ", " #", " {name} ", ": {question}", "SELECT place FROM logs"].iter().all(|text| !is_piece(text))
    );
}

#[test]
fn texts_are_only_in_text_modules() {
    let mut found = Vec::new();
    for file in sources() {
        let is_script = file.extension().is_some_and(|kind| kind == "js");
        let texts = texts(&fs::read_to_string(&file).unwrap(), is_script);
        let is_ours = |text: &String| is_sentence(text) || !is_script && is_piece(text);
        found.extend(texts.into_iter().filter(is_ours).map(|text| format!("{}: {text}", file.display())));
    }
    assert!(found.is_empty(), "move to a module `texts`: {}", found.join("\n"));
}
