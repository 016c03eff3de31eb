//! Links in Markdown files, and the table of contents of the book that `make docs` builds of them.
//!
//! A relative link names a file that exists, and its anchor a heading of that file. `docs/SUMMARY.md` lists every page of
//! `docs/`. A page of the book links to pages of the book, or to files that `make docs` copies beside them: other links
//! would work in the checkout only. Addresses on the Internet are not checked, so the test needs no network.

mod checkout;

use checkout::{lines_of, root};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

const SUMMARY: &str = "docs/SUMMARY.md";

/// `make docs` copies these beside the pages.
const COPIED: &[&str] = &["docs/images/", "docs/tutorial/page/", "LICENSE-APACHE", "LICENSE-MIT"];

#[test]
fn links_name_files_and_headings_that_exist() {
    let texts = markdown_files();
    let anchors: BTreeMap<_, _> = texts.iter().map(|(path, text)| (path.as_str(), anchors(text))).collect();
    let mut broken = Vec::new();
    for (path, text) in &texts {
        for Link { line, target } in links(text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target.as_str(), ""));
            let file = resolved(path, file);
            if !root().join(&file).exists() {
                broken.push(format!("{path}:{line}: {target}: expected a file at {file}, got none"));
            } else if !anchor.is_empty() && !anchors.get(file.as_str()).is_some_and(|anchors| anchors.contains(anchor)) {
                broken.push(format!("{path}:{line}: {target}: expected a heading of {file} with this anchor, got none"));
            }
        }
    }
    assert!(broken.is_empty(), "mend these links:\n{}", broken.join("\n"));
}

#[test]
fn table_of_contents_lists_every_page_once() {
    let texts = markdown_files();
    let Some(summary) = texts.get(SUMMARY) else { return };
    let listed: Vec<_> = links(summary).into_iter().map(|link| resolved(SUMMARY, &link.target)).collect();
    let mut wrong = Vec::new();
    for (index, page) in listed.iter().enumerate() {
        if !texts.contains_key(page) {
            wrong.push(format!("{SUMMARY} lists {page}: expected a Markdown file, got none"));
        }
        if listed[..index].contains(page) {
            wrong.push(format!("{SUMMARY} lists {page} more than once"));
        }
    }
    for page in texts.keys().filter(|page| page.starts_with("docs/") && *page != SUMMARY && !listed.contains(page)) {
        wrong.push(format!("{SUMMARY} does not list {page}; add it to the part whose readers need it"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pages_of_the_book_link_to_what_the_book_contains() {
    let texts = markdown_files();
    let Some(summary) = texts.get(SUMMARY) else { return };
    let listed: BTreeSet<_> = links(summary).into_iter().map(|link| resolved(SUMMARY, &link.target)).collect();
    let is_in_book = |file: &str| listed.contains(file) || COPIED.iter().any(|copied| file.starts_with(copied));
    let mut wrong = Vec::new();
    for page in &listed {
        for Link { line, target } in texts.get(page).map(|text| links(text)).unwrap_or_default() {
            let file = resolved(page, target.split('#').next().unwrap_or_default());
            if !is_in_book(&file) {
                wrong.push(format!(
                    "{page}:{line}: {target}: expected a page of the book, got {file}; list it in {SUMMARY}, link to a README.md, \
                     or name it without a link"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn links_and_anchors_are_read_as_markdown() {
    let found = links("[a](b.md#c) `[x](no.md)` [`d`](e)\n```\n[no](no.md)\n```\n- ![f](g.png) <https://no> [h](https://no)\n");
    let found: Vec<_> = found.iter().map(|link| (link.line, link.target.as_str())).collect();
    assert_eq!(found, [(1, "b.md#c"), (1, "e"), (5, "g.png")]);

    let found = anchors("# A `b_c`, d: [e](f.md)!\n```\n# no\n```\n## Twice\n## Twice\n#no\n### `/api/{x}` — é\n");
    let expected = ["a-b_c-d-e", "apix--é", "twice", "twice-1"];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);

    assert_eq!(resolved("docs/a.md", "../sdk/./b.md"), "sdk/b.md");
    assert_eq!(resolved("docs/a.md", ""), "docs/a.md");
}

struct Link {
    line: usize,
    target: String,
}

/// Relative links and images outside of code.
fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, prose) in outside_of_code(text) {
        let prose = without_code_spans(prose);
        for rest in prose.split("](").skip(1) {
            let Some((target, _)) = rest.split_once(')') else { continue };
            let has_scheme = target.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(char::is_alphanumeric));
            if !has_scheme {
                links.push(Link { line, target: target.to_owned() });
            }
        }
    }
    links
}

/// Anchors of headings: letters and digits in lower case, hyphens for spaces, a number for a repeated one.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, prose) in outside_of_code(text) {
        let heading = prose.trim_start_matches('#');
        let level = prose.len() - heading.len();
        if !(1..=6).contains(&level) || !heading.starts_with(' ') {
            continue;
        }
        let anchor: String = shown(heading.trim())
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let repeated = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(repeated).find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}

/// Text of a heading without the targets of its links.
fn shown(heading: &str) -> String {
    let mut parts = heading.split("](");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    shown
}

/// Lines with their numbers, without blocks of code.
fn outside_of_code(text: &str) -> Vec<(usize, &str)> {
    let mut in_code = false;
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let is_prose = |(_, line): &(usize, &str)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    };
    numbered.filter(is_prose).collect()
}

fn without_code_spans(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Path of a link's file from the root of the checkout.
fn resolved(page: &str, link: &str) -> String {
    if link.is_empty() {
        return page.to_owned();
    }
    let mut path = PathBuf::from(page);
    path.pop();
    for component in Path::new(link).components() {
        match component {
            Component::ParentDir if path.file_name().is_some() => _ = path.pop(),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path.to_str().expect("links are UTF-8").to_owned()
}

/// Markdown files that git knows or would add, by path; none outside of a repository, such as in an unpacked archive.
fn markdown_files() -> BTreeMap<String, String> {
    let paths = lines_of(&["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    paths.into_iter().filter_map(|path| Some((path.clone(), fs::read_to_string(root().join(path)).ok()?))).collect()
}
