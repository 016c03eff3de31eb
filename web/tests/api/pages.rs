//! What people are shown, where it takes more than one page to see that it is right.

use crate::{
    chain::{ALICE, ART, BOB},
    explorer::EXPLORER,
};

/// Where the links of a page lead, as a browser reads them, without what is after a #.
fn links(page: &str) -> Vec<String> {
    let link = |rest: &str| rest.split(['"', '#']).next().unwrap().replace("&amp;", "&");
    page.split("href=\"").skip(1).map(link).collect()
}

#[test]
fn every_approval_can_be_taken_back_where_its_link_leads() {
    let page = EXPLORER.get(&format!("/address/{ALICE}/approvals")).text;
    let ways: Vec<_> = links(&page).into_iter().filter(|link| link.contains("/write?f=")).collect();
    assert_eq!(ways.len(), 3, "{page}");
    for way in ways {
        let form = EXPLORER.get(&way);
        assert_eq!(form.status, 200, "{way}: {}", form.text);
        assert!(form.text.contains("by-hand"), "{way}: {}", form.text);
    }
    let sent = EXPLORER.ask(&format!("/address/{ART}/encode?f=a22cb465&a0={BOB}&a1=false"));
    let spender = BOB.to_string().to_lowercase();
    assert_eq!(sent["data"], format!("0xa22cb465{:0>64}{:0>64}", &spender[2..], ""));
}
