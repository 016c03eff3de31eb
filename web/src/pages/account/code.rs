//! Facts about a contract's module, read from its bytes.

use super::{
    super::{Page, parts},
    creator_of, interface,
    subject::{Contract, Subject},
};
use crate::{
    abi, app_state::AppState, format, pages::account::texts as account_texts, pages::account::texts::contract as texts,
};
use alloy_primitives::Address;
use axum::extract::{Path, State};
use maud::{Markup, html};
use std::sync::Arc;

/// Maximum number of listed imports, exports and sections.
const MAX_LISTED: usize = 64;

/// Size of a memory page in bytes.
const PAGE: u64 = 64 << 10;

/// `/address/{address}/code`
pub async fn show(State(app): State<Arc<AppState>>, Path(address): Path<String>) -> Page {
    let subject = Subject::load(&app, &address).await?;
    let contract = subject.contract()?;
    let maker = creator_of(&app, contract).await?;
    Ok(subject.page(&app, texts::CODE, markup(subject.address, contract, maker)))
}

fn markup(address: Address, contract: &Contract, maker: Markup) -> Markup {
    let facts = &contract.facts;
    let mut rows = vec![
        (texts::CODE_HASH, parts::hash(contract.code_hash)),
        (account_texts::MADE_BY, maker),
        (
            texts::DEPLOYED,
            html! {
                (format::bytes(contract.code_bytes)) @if facts.compressed { ", " (texts::COMPRESSED) }
            },
        ),
    ];
    if facts.module_bytes > 0 {
        rows.push((texts::MODULE, html! { (format::bytes(facts.module_bytes)) }));
        rows.push((
            texts::FUNCTIONS,
            html! { (format::number(facts.functions)) ", " (format::bytes(facts.code_bytes)) " " (texts::OF_CODE) },
        ));
        let bytes = facts.memory_pages.saturating_mul(PAGE);
        rows.push((
            texts::MEMORY,
            html! { (format::bytes(bytes)) ", " (texts::PAGES) " " (format::number(facts.memory_pages)) },
        ));
    }
    if let Some(problem) = &facts.problem {
        rows.push((texts::PROBLEM, html! { span .data { (abi::text(problem)) } }));
    }
    html! {
        section { h2 { (texts::CODE) } (parts::facts(&rows)) }
        (verification(address, contract))
        (listed(texts::IMPORTS, texts::IMPORTS_NOTE, [texts::FROM_MODULE, texts::NAME], &facts.imports, |(module, name)| {
            [html! { span .data { (abi::text(module)) } }, html! { span .data { (abi::text(name)) } }]
        }))
        (listed(texts::EXPORTS, texts::EXPORTS_NOTE, [texts::NAME, texts::KIND], &facts.exports, |(name, kind)| {
            [html! { span .data { (abi::text(name)) } }, html! { (abi::text(kind)) }]
        }))
        (listed(texts::SECTIONS, texts::SECTIONS_NOTE, [texts::NAME, texts::SIZE], &facts.sections, |(name, bytes)| {
            [html! { span .data { (abi::text(name)) } }, html! { (format::bytes(*bytes)) }]
        }))
    }
}

/// Origin of the interface, and how readers can verify the source. The explorer itself verifies nothing.
fn verification(address: Address, contract: &Contract) -> Markup {
    let command = crate::texts::verify_command(address);
    let rows =
        [(texts::INTERFACE, html! { (interface::abi_source(contract)) }), (texts::SOURCE, html! { (texts::SOURCE_NOT_SHOWN) })];
    html! {
        section #source {
            h2 { (texts::VERIFICATION) }
            (parts::facts(&rows))
            p {
                (texts::VERIFY)
                button .copy type="button" data-copy=(command) aria-label=(texts::COPY_COMMAND) hidden {}
            }
            pre .bytes tabindex="0" { code { (command) } }
            p { (texts::VERIFY_PRINTS) " " (parts::hash(contract.code_hash)) }
            p .note { (texts::VERIFY_HOW) }
        }
    }
}

fn listed<T>(title: &str, note: &str, columns: [&str; 2], items: &[T], cells: impl Fn(&T) -> [Markup; 2]) -> Markup {
    let rows: Vec<_> = items.iter().take(MAX_LISTED).map(|item| cells(item).into()).collect();
    html! {
        section {
            h2 { (title) " (" (items.len()) ")" }
            p .note { (note) }
            (parts::table(title, &columns, rows))
            @if items.len() > MAX_LISTED { p .note { (texts::AND_MORE) " " (items.len() - MAX_LISTED) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::subject::Source;
    use super::*;
    use crate::indexer::contracts::ModuleInfo;
    use alloy_primitives::B256;

    #[test]
    fn module_names_are_escaped() {
        let hostile = "<script>alert(1)</script>\u{202e}\"'&".to_owned();
        let facts = ModuleInfo {
            imports: vec![(hostile.clone(), hostile.clone()); 10_000],
            exports: vec![(hostile.clone(), hostile.clone())],
            sections: vec![(hostile.clone(), u64::MAX)],
            problem: Some(hostile),
            module_bytes: u64::MAX,
            memory_pages: u64::MAX,
            ..ModuleInfo::default()
        };
        let contract = Contract { facts, ..Contract::default() };
        let page = markup(Address::ZERO, &contract, html! {}).into_string();
        assert!(!page.contains("<script") && !page.contains('\u{202e}'));
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert!(page.len() < 60_000, "{}", page.len());
    }

    #[test]
    fn page_shows_abi_source_and_verify_command() {
        let address = Address::repeat_byte(0xab);
        for (source, said) in [
            (Source::Module, texts::SOURCE_MODULE),
            (Source::Uploaded, texts::SOURCE_UPLOADED),
            (Source::Missing, texts::SOURCE_NOBODY),
        ] {
            let contract = Contract { source, code_hash: B256::repeat_byte(0x5c), ..Contract::default() };
            let page = verification(address, &contract).into_string();
            // Templates escape quotes, so the expected text needs it too.
            let shows = |text: &str| page.contains(&html! { (text) }.into_string());
            assert!(shows(said) && shows(texts::SOURCE_NOT_SHOWN), "{page}");
            let command = format!("corniche contract verify {address}");
            assert!(
                page.contains(&format!("data-copy=\"{command}\"")) && page.contains(&format!("<code>{command}</code>")),
                "{page}"
            );
            assert!(page.contains(&format!("data-copy=\"{}\"", contract.code_hash)), "{page}");
        }
    }
}
