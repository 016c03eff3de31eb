use super::{account::texts::wallet, dag::texts as dag};

#[test]
fn scripts_receive_their_texts() {
    for (script, before, provided) in [
        (include_str!("../assets/wallet.js"), "TEXTS.", &wallet::SCRIPT[..]),
        (include_str!("../assets/dag.js"), "text('", &dag::SCRIPT[..]),
    ] {
        let provided: Vec<&str> = provided.iter().map(|(name, _)| *name).collect();
        let end = |rest: &str| rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let used: Vec<&str> = script.split(before).skip(1).map(|rest| &rest[..end(rest)]).collect();
        assert!(!used.is_empty() && used.iter().all(|name| provided.contains(name)), "{used:?} of {provided:?}");
        assert!(provided.iter().all(|name| script.contains(name)), "{provided:?}");
    }
}
