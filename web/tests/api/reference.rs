//! `docs/explorer-api.md` and the page at `/api` match the table of endpoints.

use crate::explorer::EXPLORER;
use corniche_web::api::reference;
use std::{fs, path::Path};

#[test]
fn document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/explorer-api.md");
    let document = reference::markdown();
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, &document).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == document, "docs/explorer-api.md is old: WRITE_DOCS=1 cargo test -p corniche-web --test api reference");
}

#[test]
fn documentation_page_is_complete_and_small() {
    let answer = EXPLORER.get_as("/api", "text/html,*/*;q=0.8");
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/html; charset=utf-8"));
    let reference = reference::reference();
    for endpoint in &reference.endpoints {
        assert!(answer.text.contains(endpoint.path), "{}", endpoint.path);
        for parameter in endpoint.parameters {
            let first = parameter.about.split('`').find(|part| !part.is_empty()).unwrap();
            assert!(answer.text.contains(first), "{}", parameter.name);
        }
    }
    assert!(!answer.text.contains('`'), "code is told apart");
    for object in &reference.objects {
        assert!(answer.text.contains(&format!("id=\"{}\"", object.name)), "{}", object.name);
    }
    for action in &reference.actions {
        assert!(answer.text.contains(action.name), "{}", action.name);
    }
    assert!(answer.text.len() < 110_000, "{} bytes", answer.text.len());
}

/// The API and the pages have only `views` in common.
#[test]
fn api_and_pages_do_not_import_each_other() {
    fn check(path: &Path, other: &str) {
        if path.is_dir() {
            return fs::read_dir(path).unwrap().for_each(|entry| check(&entry.unwrap().path(), other));
        }
        let source = fs::read_to_string(path).unwrap();
        // `crate::{` opens an import with one module on each line.
        let imports = source
            .lines()
            .filter(|line| line.contains(&format!("crate::{other}")) || line.starts_with(&format!("    {other}::")));
        assert_eq!(imports.collect::<Vec<_>>(), Vec::<&str>::new(), "{}", path.display());
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (module, other) in [("api", "pages"), ("pages", "api")] {
        check(&sources.join(module), other);
        check(&sources.join(format!("{module}.rs")), other);
    }
}
