//! A genesis whose validators deal the threshold coin together, by files that they exchange, so that nobody knows its key
//! (`protocols/validators.md`, section 4.6).
//!
//! | command | by | writes |
//! |---|---|---|
//! | `draft` | anybody | `draft.json`: the genesis without the coin, and the validators' coin keys |
//! | `deal` | each validator | `deal-<i>.json` |
//! | `acknowledge` | each validator, with all dealings | `ack-<i>.json`: the dealings whose values it could decrypt |
//! | `open` | a validator whose dealing was not acknowledged by all | `open-<i>.json`: the missing values |
//! | `seal` | anybody, with all files | `genesis.json`: the same bytes for everybody |
//! | `finish` | each validator | `coin.key`: its share |
//!
//! Nobody has to be trusted with the files. Everything is made for the hash of the draft, which the validators compare. A replaced
//! file is found: a validator compares its own dealing with the file, and its share with the genesis.

use crate::{engines, genesis, keys};
use anyhow::{Context, bail, ensure};
use corniche_console::{exit, secret};
use corniche_crypto::{CoinKey, CoinOpening, CoinPublicKeys, CoinTarget, Dealing, Dealings, DealtCoin, settle};
use corniche_service::ValidatorKeys;
use corniche_types::{B256, Bytes, Epoch, Genesis, ValidatorIndex, keccak256, wire};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, Write},
    path::{Path, PathBuf},
};

/// The content of `draft.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DraftFile {
    /// Its coin keys are empty.
    genesis: Genesis,
    /// One of each validator.
    coin_keys: Vec<Bytes>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DealFile {
    draft: B256,
    dealer: u16,
    dealing: Bytes,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AckFile {
    draft: B256,
    member: u16,
    dealers: BTreeSet<u16>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenFile {
    draft: B256,
    dealer: u16,
    values: BTreeMap<u32, B256>,
}

/// Any file that a validator makes for a draft.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CeremonyFile {
    Deal(DealFile),
    Ack(AckFile),
    Open(OpenFile),
}

/// Files and keys of a validator.
#[derive(clap::Args, Debug)]
pub struct Member {
    /// The draft
    #[arg(value_name = "DRAFT.json")]
    draft: PathBuf,
    /// Files of the validators: deal-*.json, ack-*.json, open-*.json
    #[arg(value_name = "FILES")]
    files: Vec<PathBuf>,
    /// Directory with this validator's keys
    #[arg(long, value_name = "DIR", default_value = "keys")]
    keys: PathBuf,
    /// Directory for the new file
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

/// A draft, and the dealings for it.
struct Ceremony {
    draft: DraftFile,
    hash: B256,
    target: CoinTarget,
    dealings: Dealings,
}

/// Writes the draft of this genesis, and returns its hash.
pub fn write_draft(genesis: Genesis, coin_keys: Vec<Bytes>, path: &Path) -> anyhow::Result<B256> {
    let genesis = Genesis { coin_shares: Vec::new(), coin_public_key: Bytes::new(), ..genesis };
    let draft = DraftFile { genesis, coin_keys };
    let ceremony = Ceremony::new(draft)?;
    write_new(path, &ceremony.draft)?;
    Ok(ceremony.hash)
}

impl Member {
    /// Deals.
    pub fn deal(&self, confirmed: Option<B256>) -> anyhow::Result<()> {
        let (ceremony, own) = self.read()?;
        ceremony.confirm(confirmed)?;
        let dealing = own.key.deal(&ceremony.target, own.index);
        let file = DealFile { draft: ceremony.hash, dealer: own.index.0, dealing: wire::encode(&dealing).into() };
        self.write("deal", &own, &CeremonyFile::Deal(file))
    }

    /// Acknowledges the dealings whose values these keys decrypt.
    pub fn acknowledge(&self) -> anyhow::Result<()> {
        let (ceremony, own) = self.read()?;
        ceremony.check_own(&own)?;
        let (mut dealers, mut bad) = (BTreeSet::new(), Vec::new());
        for (dealer, dealt) in &ceremony.dealings.dealt {
            match own.key.receives(&ceremony.target, own.index, dealt) {
                true => _ = dealers.insert(dealer.0),
                false => bad.push(dealer.to_string()),
            }
        }
        if !bad.is_empty() {
            exit::note(format_args!(
                "wrong values from {}: not acknowledged; each of them has to open, or is left out",
                bad.join(", ")
            ));
        }
        let absent: Vec<_> = ceremony.target.members().filter(|dealer| !ceremony.dealings.dealt.contains_key(dealer)).collect();
        ensure!(absent.is_empty() || !self.files.is_empty(), "give the files of all validators: deal-*.json");
        if !absent.is_empty() {
            exit::note(format_args!("no dealing from {}; acknowledge again when it is here", list(absent)));
        }
        let file = AckFile { draft: ceremony.hash, member: own.index.0, dealers };
        self.write("ack", &own, &CeremonyFile::Ack(file))
    }

    /// Shows the values of members that have not acknowledged the own dealing.
    pub fn open(&self) -> anyhow::Result<()> {
        let (ceremony, own) = self.read()?;
        ceremony.check_own(&own)?;
        let missing: Vec<_> = ceremony.dealings.missing(&ceremony.target, own.index).collect();
        if missing.is_empty() {
            exit::note("all validators have acknowledged this dealing; there is nothing to open");
            return Ok(());
        }
        let names = list(missing.iter().copied());
        let opening = own.key.open(&ceremony.target, own.index, missing).with_context(|| {
            let faulty = ceremony.target.weights().max_faulty();
            format!("{names} have not acknowledged; together they have more than {faulty} votes, and opening would reveal the coin: wait for them")
        })?;
        exit::note(format_args!("this shows everybody the values of {names}"));
        let values = opening.values.into_iter().map(|(x, value)| (x, B256::new(value))).collect();
        let file = OpenFile { draft: ceremony.hash, dealer: own.index.0, values };
        self.write("open", &own, &CeremonyFile::Open(file))
    }

    /// Writes the own share of the coin of a sealed genesis into the keys directory.
    pub fn finish(&self, path: &Path) -> anyhow::Result<()> {
        let (ceremony, own) = self.read()?;
        ceremony.check_own(&own)?;
        let sealed = genesis::load(path)?;
        let without =
            Genesis { coin_shares: Vec::new(), coin_public_key: Bytes::new(), coin_draft: None, ..Genesis::clone(&sealed) };
        ensure!(
            without == ceremony.draft.genesis && sealed.coin_draft == Some(ceremony.hash),
            "{} is no genesis of this draft; compare the draft's hash with the others: {}",
            path.display(),
            ceremony.hash
        );
        let keys = CoinPublicKeys::from_genesis(&sealed).context("the genesis' coin keys are damaged")?;
        let qualified = ceremony.dealings.dealt.keys().copied().collect();
        let coin = DealtCoin { keys, qualified, exposed: corniche_types::Votes(0) };
        let share = own.key.share(&ceremony.target, own.index, &coin, &ceremony.dealings).with_context(|| {
            "these dealings do not add up to the coin of the genesis; give exactly those that `seal` named, and the openings".to_owned()
        })?;
        if !coin.qualified.contains(&own.index) {
            exit::note("your own dealing is not part of this coin, so its secrecy rests on the other validators");
        }
        let file = self.keys.join("coin.key");
        secret::write(&file, &share.to_hex())?;
        exit::note(format_args!("the share of validator {} is in {}", own.index, file.display()));
        Ok(())
    }

    fn read(&self) -> anyhow::Result<(Ceremony, Own)> {
        let ceremony = Ceremony::read(&self.draft, &self.files)?;
        let own = Own::find(&keys::load(&self.keys)?, &ceremony)?;
        Ok((ceremony, own))
    }

    fn write(&self, name: &str, own: &Own, file: &CeremonyFile) -> anyhow::Result<()> {
        let path = self.out.join(format!("{name}-{}.json", own.index));
        write_new(&path, file)?;
        exit::note(format_args!("{} is for all validators", path.display()));
        Ok(())
    }
}

/// Makes the genesis. `may_miss`: also if some validators have not dealt or acknowledged.
pub fn seal(draft: &Path, files: &[PathBuf], out: &Path, may_miss: bool) -> anyhow::Result<Genesis> {
    let ceremony = Ceremony::read(draft, files)?;
    let Ceremony { target, dealings, .. } = &ceremony;
    let absent: Vec<_> = target.members().filter(|member| !dealings.dealt.contains_key(member)).collect();
    let silent: Vec<_> = target
        .members()
        .filter(|member| {
            dealings.dealt.keys().any(|dealer| dealings.missing(target, *dealer).any(|missing| missing == *member))
        })
        .collect();
    ensure!(
        may_miss || absent.is_empty() && silent.is_empty(),
        "dealings missing: {}; acknowledgements missing: {}; wait for them, or seal without them with --missing",
        list(absent),
        list(silent)
    );
    let coin = settle(target, target.weights(), dealings).with_context(|| {
        let quorum = target.weights().quorum();
        format!("the dealers whose values all members have must have {quorum} votes together; ask the others to acknowledge or to open")
    })?;
    let (coin_public_key, coin_shares) = coin.keys.to_genesis();
    let genesis = Genesis { coin_shares, coin_public_key, coin_draft: Some(ceremony.hash), ..ceremony.draft.genesis.clone() };
    let genesis = Genesis::from_json(&genesis.to_json()).context("the draft")?;
    corniche_crypto::verify_genesis(&genesis).context("the draft")?;
    engines::check(&genesis)?;
    ensure!(!out.exists(), "{} exists; a genesis is never overwritten", out.display());
    fs::write(out, genesis.to_json() + "\n").with_context(|| format!("cannot write {}", out.display()))?;
    if coin.qualified.len() < target.weights().members() {
        exit::note(format_args!(
            "the coin is made of the dealings of {}: give exactly these to `finish`",
            list(coin.qualified)
        ));
    }
    if coin.exposed.0 > 0 {
        exit::note(format_args!("warning: everybody knows the shares of {} votes", coin.exposed));
    }
    Ok(genesis)
}

/// A validator's own key and index.
struct Own {
    key: CoinKey,
    index: ValidatorIndex,
}

impl Own {
    fn find(keys: &ValidatorKeys, ceremony: &Ceremony) -> anyhow::Result<Self> {
        let key =
            keys.stake.as_ref().map(|stake| stake.coin.clone()).context("coin-seed.key is missing in the keys directory")?;
        let validators = (0u16..).map(ValidatorIndex).zip(&ceremony.draft.genesis.validators);
        let own = B256::from(*keys.consensus.public());
        let index = validators.filter(|(_, validator)| validator.consensus_key == own).map(|(index, _)| index).next();
        let index = index.context("these keys are of no validator in the draft")?;
        let listed = &ceremony.draft.coin_keys[index.as_usize()];
        ensure!(listed[..] == key.public(), "the draft lists another coin key for validator {index}; do not deal to it");
        Ok(Self { key, index })
    }
}

impl Ceremony {
    fn new(draft: DraftFile) -> anyhow::Result<Self> {
        let weights = draft.genesis.weights();
        weights.check().map_err(|problem| anyhow::anyhow!("the draft's validators {problem}"))?;
        let hash = keccak256(serde_json::to_vec(&draft)?);
        let keys = draft.coin_keys.iter().map(|key| &key[..]);
        let target = CoinTarget::new(draft.genesis.chain_id, Epoch(0), hash, weights, keys);
        let target = target.context("the draft needs one valid coin key per validator")?;
        Ok(Self { draft, hash, target, dealings: Dealings::default() })
    }

    /// Reads a draft and files made for it.
    fn read(draft: &Path, files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut ceremony = Self::new(read(draft)?)?;
        let (mut openings, mut acknowledgements) = (Vec::new(), Vec::new());
        for path in files {
            let (of, member) = match read(path)? {
                CeremonyFile::Deal(file) => {
                    ceremony.add_dealing(path, &file)?;
                    (file.draft, file.dealer)
                }
                CeremonyFile::Ack(file) => {
                    acknowledgements.push((file.member, file.dealers));
                    (file.draft, file.member)
                }
                CeremonyFile::Open(file) => {
                    openings.push((path, file.dealer, file.values));
                    (file.draft, file.dealer)
                }
            };
            ensure!(of == ceremony.hash, "{} was made for another draft: {of}, this one is {}", path.display(), ceremony.hash);
            let members = ceremony.target.weights().members();
            ensure!(usize::from(member) < members, "{} names validator {member} of {members}", path.display());
        }
        for (member, dealers) in acknowledgements {
            for dealer in dealers {
                ceremony.dealings.acknowledged.entry(ValidatorIndex(dealer)).or_default().insert(ValidatorIndex(member));
            }
        }
        for (path, dealer, values) in openings {
            let opening = CoinOpening { values: values.into_iter().map(|(x, value)| (x, value.0)).collect() };
            let dealt = ceremony.dealings.dealt.get(&ValidatorIndex(dealer));
            let dealt =
                dealt.with_context(|| format!("{} opens a dealing that is missing: deal-{dealer}.json", path.display()))?;
            ensure!(dealt.admits(&opening), "{} does not show the values of deal-{dealer}.json", path.display());
            ceremony.dealings.opened.insert(ValidatorIndex(dealer), opening);
        }
        Ok(ceremony)
    }

    fn add_dealing(&mut self, path: &Path, file: &DealFile) -> anyhow::Result<()> {
        let dealer = ValidatorIndex(file.dealer);
        let dealing = wire::decode::<Dealing>(&file.dealing).ok().filter(|_| file.draft == self.hash);
        let Some(dealt) = dealing.and_then(|dealing| dealing.verify(&self.target, dealer)) else {
            ensure!(
                file.draft == self.hash,
                "{} was made for another draft: {}, this one is {}",
                path.display(),
                file.draft,
                self.hash
            );
            bail!("{} is no valid dealing; leave it out, and tell validator {dealer}", path.display());
        };
        let before = self.dealings.dealt.insert(dealer, dealt);
        ensure!(before.is_none(), "{} is a second dealing of validator {dealer}", path.display());
        Ok(())
    }

    /// Checks that nobody replaced the own dealing.
    fn check_own(&self, own: &Own) -> anyhow::Result<()> {
        let Some(dealt) = self.dealings.dealt.get(&own.index) else { return Ok(()) };
        let is_own = *dealt.dealing() == own.key.deal(&self.target, own.index);
        ensure!(
            is_own,
            "deal-{}.json is not what these keys deal: somebody replaced it. Start over with a new draft",
            own.index
        );
        Ok(())
    }

    /// Asks whether the others see the same draft.
    fn confirm(&self, confirmed: Option<B256>) -> anyhow::Result<()> {
        let hash = self.hash;
        match confirmed {
            Some(confirmed) => ensure!(confirmed == hash, "the draft is {hash}, not {confirmed}"),
            None => {
                let mut answer = String::new();
                let mut errors = std::io::stderr();
                write!(errors, "draft {hash}\nIs this what the others read? [y/N] ")?;
                errors.flush()?;
                std::io::stdin().lock().read_line(&mut answer)?;
                ensure!(matches!(answer.trim(), "y" | "Y" | "yes"), "not confirmed; compare the hash with the others first");
            }
        }
        Ok(())
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no file of a genesis ceremony, or damaged", path.display()))
}

fn write_new<T: Serialize>(path: &Path, content: &T) -> anyhow::Result<()> {
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).open(path);
    let mut file = file.with_context(|| format!("cannot create {}; files are never overwritten", path.display()))?;
    writeln!(file, "{}", serde_json::to_string_pretty(content)?).with_context(|| format!("cannot write {}", path.display()))
}

fn list(members: impl IntoIterator<Item = ValidatorIndex>) -> String {
    let names: Vec<_> = members.into_iter().map(|member| member.to_string()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
