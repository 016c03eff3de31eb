//! Page of a contract's interface: its functions, events and errors, its origin, and an upload form if there is no interface.

use super::{
    super::{Failure, Page},
    subject::{self, Contract, Source, Subject},
};
use crate::{
    abi::{self, parse_abi},
    app_state::AppState,
    format::{self, clean},
    indexer::{
        contracts::MAX_ABI_BYTES,
        uploads::{UploadError, count_selectors},
    },
    links,
    pages::account::texts::contract as texts,
};
use alloy_json_abi::JsonAbi;
use alloy_primitives::Address;
use axum::{
    Form,
    extract::{Path, State, rejection::FormRejection},
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;

/// Maximum number of listed names of a kind. The JSON contains all.
const MAX_SIGNATURES: usize = 200;

/// Maximum size of JSON in the page, in bytes. Larger JSON is only linked.
const MAX_JSON: usize = 24 << 10;

/// Maximum size of an upload's body in bytes. Form encoding may turn a byte of JSON into three.
pub const MAX_FORM_BYTES: usize = 3 * MAX_ABI_BYTES + 1_024;

/// `/address/{address}/abi`
pub async fn show(State(app): State<Arc<AppState>>, Path(address): Path<String>) -> Page {
    let subject = Subject::load(&app, &address).await?;
    let contract = subject.contract()?;
    Ok(subject.page(&app, texts::INTERFACE, markup(subject.address, contract, "", None)))
}

/// `/address/{address}/abi.json`
pub async fn json(State(app): State<Arc<AppState>>, Path(address): Path<String>) -> Result<Response, Failure> {
    let subject = Subject::load(&app, &address).await?;
    let abi = subject.contract()?.abi.clone();
    match abi.is_empty() {
        true => Err(Failure::NotFound(format!("{}: {}", subject.address, texts::SOURCE_NOBODY))),
        false => Ok(([("content-type", "application/json")], abi).into_response()),
    }
}

/// Body of the upload form.
#[derive(Debug, Deserialize)]
pub struct Upload {
    abi: String,
}

/// `POST /address/{address}/abi`
pub async fn upload(
    State(app): State<Arc<AppState>>,
    Path(address): Path<String>,
    form: Result<Form<Upload>, FormRejection>,
) -> Result<Response, Failure> {
    let subject = Subject::load(&app, &address).await?;
    let Form(upload) = form.map_err(|_| Failure::BadRequest(too_large()))?;
    let kept = match check(&app, &subject, &upload.abi).await? {
        Ok(()) => app.uploads.keep(subject.address, upload.abi.clone()).await,
        Err(problem) => return Ok(again(&app, &subject, &upload.abi, &problem)),
    };
    match kept {
        Ok(()) => Ok(Redirect::to(&links::account_part(subject.address, subject::ABI)).into_response()),
        Err(UploadError::Database(error)) => Err(error.into()),
        Err(UploadError::Node(error)) => Err(error.into()),
        Err(refused) => Ok(again(&app, &subject, &upload.abi, &refused.to_string())),
    }
}

/// Page with the uploaded text and the error.
fn again(app: &AppState, subject: &Subject, sent: &str, problem: &str) -> Response {
    let contract = subject.contract.clone().unwrap_or_default();
    let body = markup(subject.address, &contract, sent, Some(problem));
    (axum::http::StatusCode::UNPROCESSABLE_ENTITY, subject.page(app, texts::INTERFACE, body)).into_response()
}

/// Checks an uploaded interface: it must be valid, and the code must contain its selectors. Nothing more can be verified here.
async fn check(app: &AppState, subject: &Subject, text: &str) -> Result<Result<(), String>, Failure> {
    let has_room = match subject.contract()?.source {
        Source::Module => Err(UploadError::Embedded.to_string()),
        Source::Uploaded => Err(UploadError::AlreadyUploaded.to_string()),
        Source::Missing => Ok(()),
    };
    let read = match has_room.and_then(|()| readable(text)) {
        Ok(interface) => interface,
        Err(problem) => return Ok(Err(problem)),
    };
    let code = app.node.codes(vec![subject.address]).await?.pop().unwrap_or_default();
    let compare = move || {
        let module = corniche_verifier::code::module(&code).map(std::borrow::Cow::into_owned).unwrap_or_default();
        has_selectors(&module, &read)
    };
    tokio::task::spawn_blocking(compare).await.map_err(|error| Failure::Broken(error.to_string()))
}

/// Parses an interface.
fn readable(text: &str) -> Result<JsonAbi, String> {
    if text.len() > MAX_ABI_BYTES {
        return Err(too_large());
    }
    parse_abi(text).filter(|interface| !interface.is_empty()).ok_or_else(|| texts::NO_JSON.into())
}

/// The code must contain the selectors of at least three in four functions.
fn has_selectors(module: &[u8], offered: &JsonAbi) -> Result<(), String> {
    let (found, all) = count_selectors(module, offered);
    if found == 0 || 4 * found < 3 * all {
        return Err(texts::not_mentioned(found, all));
    }
    Ok(())
}

fn too_large() -> String {
    format!("{} {}.", texts::TOO_LARGE, format::bytes(MAX_ABI_BYTES as u64))
}

/// Text about the origin of the interface.
pub fn abi_source(contract: &Contract) -> &'static str {
    match contract.source {
        Source::Module => texts::SOURCE_MODULE,
        Source::Uploaded => texts::SOURCE_UPLOADED,
        Source::Missing => texts::SOURCE_NOBODY,
    }
}

fn markup(address: Address, contract: &Contract, sent: &str, problem: Option<&str>) -> Markup {
    html! {
        section { h2 { (texts::INTERFACE) } p { (abi_source(contract)) } }
        @if let Some(interface) = &contract.interface {
            (signatures(texts::FUNCTIONS, interface.functions().map(|function| function.full_signature())))
            (signatures(texts::EVENTS, interface.events().map(|event| event.full_signature())))
            (signatures(texts::ERRORS, interface.errors().map(|error| error.signature())))
            (as_json(address, &contract.abi))
        }
        @if contract.source == Source::Missing {
            (form(address, sent, problem))
        } @else if let Some(problem) = problem {
            section #upload { h2 { (texts::UPLOAD) } p .wrong role="alert" { (problem) } }
        }
    }
}

fn signatures(title: &str, signatures: impl Iterator<Item = String>) -> Markup {
    let (mut shown, mut all) = (Vec::new(), 0);
    for signature in signatures {
        all += 1;
        if shown.len() < MAX_SIGNATURES {
            shown.push(abi::text(&signature).chars().take(256).collect::<String>());
        }
    }
    html! {
        @if all > 0 {
            section {
                h2 { (title) " (" (format::number(all as u64)) ")" }
                ul .signatures { @for signature in &shown { li { code { (signature) } } } }
                @if all > shown.len() { p .note { (texts::AND_MORE) " " (format::number((all - shown.len()) as u64)) } }
            }
        }
    }
}

fn as_json(address: Address, abi: &str) -> Markup {
    let link = links::account_part(address, "abi.json");
    // `clean` removes control characters and direction marks. Outside of strings JSON does not need them, and inside they are
    // harmful.
    let text = (abi.len() <= MAX_JSON).then(|| clean(abi));
    html! {
        section {
            h2 { (texts::JSON) }
            p { a href=(link) { (texts::JSON_FILE) } ", " (format::bytes(abi.len() as u64)) }
            @if let Some(text) = text {
                button .copy type="button" data-copy=(text) aria-label=(texts::COPY_JSON) hidden { "⧉" }
                pre .bytes tabindex="0" { code { (text) } }
            }
        }
    }
}

fn form(address: Address, sent: &str, problem: Option<&str>) -> Markup {
    let page = links::account_part(address, subject::ABI);
    let sent: String = sent.chars().take(MAX_ABI_BYTES).collect();
    html! {
        section #upload {
            h2 { (texts::UPLOAD) }
            p { (texts::UPLOAD_NOTE) }
            form .call method="post" action={ (page) "#upload" } {
                div .field {
                    label for="abi" { (texts::JSON) }
                    textarea #abi name="abi" rows="8" required maxlength=(MAX_ABI_BYTES) spellcheck="false" placeholder="[{\"type\":\"function\", …}]"
                        aria-invalid=[problem.map(|_| "true")] aria-describedby=[problem.map(|_| "abi-wrong")] { (sent) }
                    @if let Some(problem) = problem { p #abi-wrong .wrong role="alert" { (problem) } }
                }
                button { (texts::UPLOAD_DO) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{database::Rows, pages::testing};
    use alloy_primitives::B256;

    const NUMBER: &str = r#"[{"type":"function","name":"number","inputs":[],"outputs":[],"stateMutability":"view"}]"#;

    fn contract(abi: &str, source: Source) -> Contract {
        Contract { abi: abi.into(), interface: parse_abi(abi), source, ..Contract::default() }
    }

    #[test]
    fn upload_requires_selectors_in_code() {
        let module = [b"\0asm\x01\0\0\0\x41".as_slice(), &[0x8a, 0xeb, 0x87, 0x9c, 0x78]].concat();
        let number = parse_abi(NUMBER).unwrap();
        assert_eq!(has_selectors(&module, &number), Ok(()));
        let refused = has_selectors(b"", &number).unwrap_err();
        assert!(refused.contains("0 of 1"), "{refused}");
        let other = parse_abi(r#"[{"type":"event","name":"E","inputs":[],"anonymous":false}]"#).unwrap();
        assert!(has_selectors(&module, &other).is_err(), "events alone say nothing that can be looked at");
    }

    #[tokio::test]
    async fn existing_abi_is_not_replaced() {
        const CONTRACT: Address = Address::repeat_byte(1);
        // A function with the same selector and other outputs. The code contains the selector, but the contract has an
        // interface already.
        let offered = NUMBER.replace("\"outputs\":[]", "\"outputs\":[{\"name\":\"misleading\",\"type\":\"uint256\"}]");
        for (source, why) in
            [("module", UploadError::Embedded.to_string()), ("uploaded", UploadError::AlreadyUploaded.to_string())]
        {
            let filled = testing::test_app().await;
            let columns = &["address", "code_hash", "code_bytes", "abi", "abi_source", "facts"];
            let mut rows = Rows::new("contracts", columns);
            let (hash, abi) = (B256::ZERO.into(), NUMBER.to_owned().into());
            rows.push([CONTRACT.into(), hash, 8u64.into(), abi, source.to_owned().into(), "{}".to_owned().into()]);
            filled.write(rows).await;
            let form = Ok(Form(Upload { abi: offered.clone() }));
            let answer = upload(State(Arc::clone(&filled.app)), Path(CONTRACT.to_string()), form).await.unwrap();
            assert_eq!(answer.status(), axum::http::StatusCode::UNPROCESSABLE_ENTITY);
            let page = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
            let page = String::from_utf8(page.into()).unwrap();
            assert!(page.contains(&why) && !page.contains("misleading") && !page.contains("<textarea"), "{source}: {page}");
        }
    }

    #[test]
    fn invalid_upload_is_rejected() {
        for text in [
            "",
            "[]",
            "{}",
            "<script>",
            "[{\"type\":\"function\",\"name\":\"<script>\",\"inputs\":[],\"outputs\":[],\"stateMutability\":\"view\"}]",
        ] {
            assert_eq!(readable(text).unwrap_err(), texts::NO_JSON, "{text}");
        }
        assert_eq!(readable(&" ".repeat(MAX_ABI_BYTES + 1)).unwrap_err(), too_large());
        let depth = "(".repeat(50_000);
        let deep = format!(
            r#"[{{"type":"function","name":"f","inputs":[{{"name":"x","type":"{depth}"}}],"outputs":[],"stateMutability":"view"}}]"#
        );
        assert_eq!(readable(&deep).unwrap_err(), texts::NO_JSON);
    }

    #[test]
    fn uploaded_abi_is_escaped() {
        let hostile = "</textarea></pre><script>alert(1)</script>\u{202e}";
        let abi = format!(
            r#"[{{"type":"function","name":"f","inputs":[{{"name":"x","type":"uint256","internalType":"{hostile}"}}],"outputs":[],"stateMutability":"view"}}]"#
        );
        let page = markup(Address::ZERO, &contract(&abi, Source::Uploaded), hostile, Some(hostile)).into_string();
        assert!(!page.contains("<script") && page.contains(texts::SOURCE_UPLOADED), "{page}");
        let page = markup(Address::ZERO, &contract(&abi, Source::Module), "", None).into_string();
        let json = as_json(Address::ZERO, hostile).into_string();
        assert!(!json.contains("<script") && !json.contains('\u{202e}'), "{json}");
        assert!(!page.contains("<form") && page.contains(texts::SOURCE_MODULE) && !page.contains('\u{202e}'));
    }

    #[test]
    fn large_abi_is_truncated() {
        let one =
            |at: usize| format!(r#"{{"type":"function","name":"f{at}","inputs":[],"outputs":[],"stateMutability":"view"}}"#);
        let abi = format!("[{}]", (0..10_000).map(one).collect::<Vec<_>>().join(","));
        let page = markup(Address::ZERO, &contract(&abi, Source::Module), "", None).into_string();
        assert!(page.len() < 30_000 && page.contains("10,000"), "{}", page.len());
    }
}
