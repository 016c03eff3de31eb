//! A genesis whose validators deal the coin together, as a person would make it: files and commands.

use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

/// Folder of a ceremony with the keys of these validators in `0/`, `1/` and so on.
struct Ceremony {
    folder: TempDir,
    validators: usize,
    draft: String,
}

impl Ceremony {
    fn begin(validators: usize, more: &[&str]) -> Self {
        let mut ceremony = Self { folder: tempfile::tempdir().unwrap(), validators, draft: String::new() };
        for index in 0..validators {
            ceremony.says(&["keys", "new", "--out", &index.to_string()]);
        }
        let public: Vec<_> = (0..validators).map(|index| format!("{index}/public.json")).collect();
        let words = [
            &["genesis", "draft", "--dev-accounts", "--from"],
            &public.iter().map(String::as_str).collect::<Vec<_>>()[..],
            more,
        ];
        let printed: Value = serde_json::from_str(&ceremony.says(&words.concat())).unwrap();
        ceremony.draft = printed["draft"].as_str().unwrap().to_owned();
        ceremony
    }

    fn run(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_corniche")).args(words).current_dir(&self.folder).output().unwrap()
    }

    fn says(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Message of a command that fails.
    fn refuses(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Arguments of a member's command.
    fn words<'w>(&self, command: &'w str, member: &'w str, files: &'w [String], more: &[&'w str]) -> Vec<&'w str> {
        let files = files.iter().map(String::as_str);
        ["genesis", command, "draft.json"]
            .into_iter()
            .chain(files)
            .chain(["--keys", member])
            .chain(more.iter().copied())
            .collect()
    }

    fn member(&self, command: &str, member: usize, files: &[String], more: &[&str]) -> String {
        self.says(&self.words(command, &member.to_string(), files, more))
    }

    fn deal(&self, members: impl IntoIterator<Item = usize>) {
        members.into_iter().for_each(|member| _ = self.member("deal", member, &[], &["--yes", &self.draft]));
    }

    fn files(&self, name: &str) -> Vec<String> {
        let files = (0..self.validators).map(|index| format!("{name}-{index}.json"));
        files.filter(|file| self.path(file).exists()).collect()
    }

    fn path(&self, file: &str) -> std::path::PathBuf {
        self.folder.path().join(file)
    }

    fn all_files(&self) -> Vec<String> {
        ["deal", "ack", "open"].map(|name| self.files(name)).concat()
    }

    fn seal(&self, more: &[&str]) -> Vec<String> {
        let files = self.all_files();
        let words = ["genesis", "seal", "draft.json"].into_iter().chain(files.iter().map(String::as_str));
        words.chain(more.iter().copied()).map(str::to_owned).collect()
    }

    fn json(&self, file: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(file)).unwrap()).unwrap()
    }
}

fn texts(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

fn change(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut content: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut content);
    fs::write(path, content.to_string()).unwrap();
}

#[test]
fn all_validators_make_one_genesis() {
    let ceremony = Ceremony::begin(4, &["--votes", "1,1,1,1", "--staking"]);
    ceremony.deal(0..4);
    let deals = ceremony.files("deal");
    (0..4).for_each(|member| _ = ceremony.member("acknowledge", member, &deals, &[]));
    assert!(ceremony.member("open", 2, &ceremony.all_files(), &[]).is_empty());
    assert!(ceremony.files("open").is_empty(), "nothing is missing");
    let sealed: Value = serde_json::from_str(&ceremony.says(&texts(&ceremony.seal(&[])))).unwrap();
    assert_eq!(sealed["coinDraft"], json!(ceremony.draft));
    // Anybody makes the same bytes.
    let mut again = ceremony.seal(&["--out", "again.json"]);
    again[3..11].reverse();
    ceremony.says(&texts(&again));
    assert_eq!(fs::read(ceremony.path("genesis.json")).unwrap(), fs::read(ceremony.path("again.json")).unwrap());
    for member in 0..4 {
        ceremony.member("finish", member, &deals, &[]);
        assert!(ceremony.says(&["keys", "show", &member.to_string()]).contains("bls_key"));
    }
    let shares: Vec<_> = (0..4).map(|member| fs::read(ceremony.path(&format!("{member}/coin.key"))).unwrap()).collect();
    assert!(shares.windows(2).all(|pair| pair[0] != pair[1]));
    let checked = ceremony.says(&["genesis", "check"]);
    assert!(
        checked.contains(&format!(
            "\ncoin          dealt by the validators, according to this file, for draft {}\n",
            ceremony.draft
        )),
        "{checked}"
    );
    assert!(ceremony.refuses(&texts(&ceremony.seal(&[]))).contains("never overwritten"));
}

/// Validator 3 has dealt and then says nothing; validator 1 does not deal.
#[test]
fn genesis_is_sealed_without_a_silent_validator() {
    let ceremony = Ceremony::begin(7, &[]);
    ceremony.deal((0..7).filter(|member| *member != 1));
    let deals = ceremony.files("deal");
    (0..7).filter(|member| *member != 3).for_each(|member| _ = ceremony.member("acknowledge", member, &deals, &[]));
    let missing = ceremony.refuses(&texts(&ceremony.seal(&[])));
    assert!(missing.contains("dealings missing: 1; acknowledgements missing: 3; "), "{missing}");
    let closed = ceremony.refuses(&texts(&ceremony.seal(&["--missing"])));
    assert!(closed.contains("must have 5 votes together"), "{closed}");
    let before = ceremony.all_files();
    [0, 2, 4, 5, 6].into_iter().for_each(|dealer| _ = ceremony.member("open", dealer, &before, &[]));
    ceremony.says(&texts(&ceremony.seal(&["--missing"])));
    // All others have acknowledged the silent one's dealing, so it counts.
    let files = [deals.clone(), ceremony.files("open")].concat();
    (0..7).for_each(|member| _ = ceremony.member("finish", member, &files, &[]));
    assert_eq!(ceremony.json("genesis.json")["coin_shares"].as_array().unwrap().len(), 7);
    fs::remove_file(ceremony.path("6/coin.key")).unwrap();
    let fewer = ceremony.refuses(&ceremony.words("finish", "6", &files[1..], &[]));
    assert!(fewer.contains("open-0.json needs deal-0.json"), "{fewer}");
    let fewer = ceremony.refuses(&ceremony.words("finish", "6", &deals[1..], &[]));
    assert!(fewer.contains("give exactly those that `seal` named"), "{fewer}");
}

/// Somebody hides acknowledgements, one after the other.
#[test]
fn dealing_is_opened_to_no_more_than_faulty_votes() {
    let ceremony = Ceremony::begin(4, &[]);
    ceremony.deal(0..4);
    let deals = ceremony.files("deal");
    (0..4).for_each(|member| _ = ceremony.member("acknowledge", member, &deals, &[]));
    let without = |hidden: usize| {
        ceremony.all_files().into_iter().filter(|file| *file != format!("ack-{hidden}.json")).collect::<Vec<_>>()
    };
    ceremony.member("open", 0, &without(1), &[]);
    fs::remove_file(ceremony.path("open-0.json")).unwrap();
    let second = ceremony.refuses(&ceremony.words("open", "0", &without(2), &[]));
    assert!(second.contains("the values of 1, 2 would be public, those of more than 1 votes"), "{second}");
    // The first one again shows no more.
    ceremony.member("open", 0, &without(1), &[]);
    assert_eq!(ceremony.json("open-0.json")["message"]["open"]["values"].as_object().unwrap().len(), 1);
    // Its own acknowledgement is not needed.
    ceremony.member("open", 3, &without(3), &[]);
    assert!(!ceremony.path("open-3.json").exists());
}

/// Somebody makes a genesis of one dealing, which decrypts for everybody.
#[test]
fn coin_of_one_party_is_refused() {
    let ceremony = Ceremony::begin(4, &[]);
    ceremony.deal(0..4);
    let deals = ceremony.files("deal");
    (0..4).for_each(|member| _ = ceremony.member("acknowledge", member, &deals, &[]));
    ceremony.says(&texts(&ceremony.seal(&[])));
    for few in [&deals[..1], &deals[..2], &[]] {
        let refused = ceremony.refuses(&ceremony.words("finish", "0", few, &[]));
        assert!(refused.contains("dealings of 3 votes are needed, else one party could know the coin"), "{refused}");
    }
    let three = ceremony.refuses(&ceremony.words("finish", "0", &deals[..3], &[]));
    assert!(three.contains("do not add up to the coin of the genesis"), "{three}");
    // Another genesis than the draft says.
    change(&ceremony.path("genesis.json"), |genesis| genesis["currency"] = "NEW".into());
    let other = ceremony.refuses(&ceremony.words("finish", "0", &deals, &[]));
    assert!(other.contains("genesis.json is no genesis of this draft"), "{other}");
}

#[test]
fn draft_is_confirmed() {
    let ceremony = Ceremony::begin(4, &[]);
    let other = ceremony.refuses(&ceremony.words("deal", "0", &[], &["--yes", &format!("0x{}", "11".repeat(32))]));
    assert!(other.contains(&format!("the draft is {}, not 0x1111", ceremony.draft)), "{other}");
    // Nobody answers the question.
    let asked = ceremony.refuses(&ceremony.words("deal", "0", &[], &[]));
    assert!(asked.contains("Is this what the others read? [y/N]") && asked.contains(&ceremony.draft), "{asked}");
    ceremony.says(&["keys", "new", "--out", "stranger"]);
    assert!(ceremony.refuses(&ceremony.words("deal", "stranger", &[], &[])).contains("of no validator in the draft"));
    // A draft that pays a validator's fees to somebody else.
    change(&ceremony.path("draft.json"), |draft| {
        draft["genesis"]["validators"][1]["fee_address"] = json!(format!("0x{}", "12".repeat(20)))
    });
    let changed = ceremony.refuses(&ceremony.words("deal", "1", &[], &[]));
    assert!(changed.contains("has not the public.json of these keys for validator 1"), "{changed}");
}

#[test]
fn replaced_and_damaged_files_are_noticed() {
    let ceremony = Ceremony::begin(4, &[]);
    ceremony.deal(0..4);
    let deals = ceremony.files("deal");
    let target = ceremony.path("deal-2.json");
    let right = fs::read(&target).unwrap();
    let refused = || ceremony.refuses(&ceremony.words("acknowledge", "1", &deals, &[]));
    let theirs = ceremony.json("deal-3.json");
    for (name, expected, damage) in [
        ("another's file", "deal-3.json is a second `deal` of validator 3", theirs.clone()),
        ("another's dealing", "deal-2.json is not signed by validator 2", json!({ "message": theirs["message"] })),
        ("another's name", "deal-2.json is not signed by validator 0", json!({ "validator": 0 })),
        ("nobody", "names validator 4, which the draft has not", json!({ "validator": 4 })),
        ("another draft", "was made for another draft: 0x2222", json!({ "draft": format!("0x{}", "22".repeat(32)) })),
        ("a short signature", "deal-2.json is not signed by validator 2", json!({ "signature": "0x00" })),
        ("an unknown field", "is no such file of a genesis ceremony", json!({ "more": 1 })),
    ] {
        change(&target, |file| file.as_object_mut().unwrap().extend(damage.as_object().unwrap().clone()));
        let refused = refused();
        assert!(refused.contains(expected), "{name}: {refused}");
        fs::write(&target, &right).unwrap();
    }
    fs::write(&target, "{}").unwrap();
    assert!(refused().contains("is no such file of a genesis ceremony"));
    // Another currency is another draft, for which nobody dealt.
    change(&ceremony.path("draft.json"), |draft| draft["genesis"]["currency"] = "NEW".into());
    assert!(ceremony.refuses(&ceremony.words("acknowledge", "1", &deals[..1], &[])).contains("was made for another draft"));
}
