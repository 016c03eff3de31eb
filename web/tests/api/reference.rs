//! `docs/explorer-api.md` and the page at `/api` match the table.

use crate::explorer::EXPLORER;
use corniche_web::api::{ENDPOINTS, etherscan::ACTIONS, reference};
use std::path::Path;

#[test]
fn document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/explorer-api.md");
    let document = reference::markdown();
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == document, "docs/explorer-api.md is old: WRITE_DOCS=1 cargo test -p corniche-web --test api reference");
}

#[test]
fn documentation_page_is_complete_and_small() {
    let answer = EXPLORER.get_as("/api", "text/html,*/*;q=0.8");
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/html; charset=utf-8"));
    for endpoint in ENDPOINTS {
        assert!(answer.text.contains(endpoint.path), "{}", endpoint.path);
        for parameter in endpoint.parameters {
            let first = parameter.about.split('`').find(|part| !part.is_empty()).unwrap();
            assert!(answer.text.contains(first), "{}", parameter.name);
        }
    }
    assert!(!answer.text.contains('`'), "code is told apart");
    for object in reference::objects() {
        assert!(answer.text.contains(&format!("id=\"{}\"", object.name)), "{}", object.name);
    }
    for action in ACTIONS {
        assert!(answer.text.contains(action.name), "{}", action.name);
    }
    assert!(answer.text.len() < 110_000, "{} bytes", answer.text.len());
}
