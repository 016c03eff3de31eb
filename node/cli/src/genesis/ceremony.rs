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
//! Nobody has to be trusted with the files. Validators compare the hash of the draft, and sign all else for this draft. `finish` checks
//! that the coin of the genesis is the sum of dealings by a quorum: so an honest one is among them.

use super::{identity_text, load, parse};
use crate::keys;
use anyhow::{Context, bail, ensure};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_console::{exit, secret};
use corniche_crypto::{
    CoinKey, CoinOpening, CoinPublicKeys, CoinTarget, ConsensusKey, ConsensusPublicKey, Dealing, Dealings, Domain, Signed,
    settle,
};
use corniche_service::ValidatorKeys;
use corniche_types::{B256, Bytes, Epoch, Genesis, ValidatorIndex, keccak256, wire};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, Write},
    path::{Path, PathBuf},
};

/// Members of the drafts to which the dealings of these keys were opened, in the keys directory.
const OPENED: &str = "coin-opened.json";

/// The content of `draft.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DraftFile {
    /// Without a coin.
    genesis: Genesis,
    /// One of each validator.
    coin_keys: Vec<Bytes>,
}

/// A file of a validator.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageFile {
    draft: B256,
    validator: ValidatorIndex,
    message: Message,
    signature: Bytes,
}

#[derive(Clone, Serialize, Deserialize, BorshSerialize, BorshDeserialize)]
#[serde(rename_all = "lowercase")]
enum Message {
    Deal {
        dealing: Bytes,
    },
    /// Digests of the acknowledged dealings, by dealer.
    Ack {
        dealings: BTreeMap<ValidatorIndex, B256>,
    },
    Open {
        values: BTreeMap<u32, B256>,
    },
}

impl Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Deal { .. } => "deal",
            Self::Ack { .. } => "ack",
            Self::Open { .. } => "open",
        }
    }
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

/// Files of all validators.
#[derive(clap::Args, Debug)]
pub struct Seal {
    #[arg(value_name = "DRAFT.json")]
    draft: PathBuf,
    /// deal-*.json, ack-*.json, open-*.json
    #[arg(value_name = "FILES", required = true)]
    files: Vec<PathBuf>,
    /// File to create
    #[arg(long, value_name = "FILE", default_value = "genesis.json")]
    out: PathBuf,
    /// Also if validators have not dealt or acknowledged
    #[arg(long)]
    missing: bool,
}

/// A draft, and the messages for it.
struct Ceremony {
    draft: DraftFile,
    hash: B256,
    target: CoinTarget,
    dealings: Dealings,
}

/// Writes the draft of this genesis, and returns its hash.
pub fn write_draft(genesis: Genesis, coin_keys: Vec<Bytes>, path: &Path) -> anyhow::Result<B256> {
    let ceremony = Ceremony::new(DraftFile { genesis: without_coin(genesis), coin_keys })?;
    write_new(path, &serde_json::to_string_pretty(&ceremony.draft)?)?;
    Ok(ceremony.hash)
}

fn without_coin(genesis: Genesis) -> Genesis {
    Genesis { coin_shares: Vec::new(), coin_public_key: Bytes::new(), coin_draft: None, ..genesis }
}

impl Member {
    /// Deals.
    pub fn deal(&self, confirmed: Option<B256>) -> anyhow::Result<()> {
        let (ceremony, own) = self.read()?;
        ceremony.confirm(confirmed)?;
        let dealing = own.key.deal(&ceremony.target, own.index);
        self.write(&ceremony, &own, Message::Deal { dealing: wire::encode(&dealing).into() })
    }

    /// Acknowledges the dealings whose values these keys decrypt.
    pub fn acknowledge(&self) -> anyhow::Result<()> {
        let (ceremony, own) = self.read()?;
        let dealt = || ceremony.dealings.dealt.iter();
        let (good, bad): (Vec<_>, Vec<_>) =
            dealt().partition(|(_, dealt)| own.key.receives(&ceremony.target, own.index, dealt));
        if !bad.is_empty() {
            let bad = list(bad.into_iter().map(|(dealer, _)| *dealer));
            exit::note(format_args!("wrong values from {bad}: not acknowledged; each of them has to open, or is left out"));
        }
        let absent = ceremony.absent();
        if !absent.is_empty() {
            exit::note(format_args!("no dealing from {}; acknowledge again when it is here", list(absent)));
        }
        let dealings = good.into_iter().map(|(dealer, dealt)| (*dealer, dealt.digest())).collect();
        self.write(&ceremony, &own, Message::Ack { dealings })
    }

    /// Shows the values of members that have not acknowledged the own dealing.
    pub fn open(&self) -> anyhow::Result<()> {
        let (ceremony, own) = self.read()?;
        let missing = ceremony.dealings.missing(&ceremony.target, own.index);
        let missing: Vec<_> = missing.filter(|member| *member != own.index).collect();
        if missing.is_empty() {
            exit::note("all validators have acknowledged this dealing; there is nothing to open");
            return Ok(());
        }
        // Somebody may show first one half of the acknowledgements and then the other one.
        let path = self.keys.join(OPENED);
        let mut opened: BTreeMap<B256, BTreeSet<ValidatorIndex>> = if path.exists() { read(&path)? } else { BTreeMap::new() };
        let shown = opened.entry(ceremony.hash).or_default();
        shown.extend(missing);
        let names = list(shown.iter().copied());
        let opening = own.key.open(&ceremony.target, own.index, shown.iter().copied()).with_context(|| {
            let faulty = ceremony.target.weights().max_faulty();
            format!("the values of {names} would be public, those of more than {faulty} votes, and so the coin: wait for acknowledgements")
        })?;
        let text = serde_json::to_string(&opened)?;
        replace(&path, &text)?;
        exit::note(format_args!("this shows everybody the values of {names}"));
        let values = opening.values.into_iter().map(|(x, value)| (x, B256::new(value))).collect();
        self.write(&ceremony, &own, Message::Open { values })
    }

    /// Writes the own share of the coin of a sealed genesis into the keys directory.
    pub fn finish(&self, path: &Path) -> anyhow::Result<()> {
        let (ceremony, own) = self.read()?;
        let Ceremony { target, dealings, .. } = &ceremony;
        let sealed: Genesis = load(path)?.into();
        let keys = CoinPublicKeys::from_genesis(&sealed).context("the genesis' coin keys are damaged")?;
        ensure!(
            sealed.coin_draft == Some(ceremony.hash) && without_coin(sealed) == ceremony.draft.genesis,
            "{} is no genesis of this draft; compare the draft's hash with the others: {}",
            path.display(),
            ceremony.hash
        );
        let dealers: BTreeSet<_> = dealings.dealt.keys().copied().collect();
        ensure!(
            target.weights().weigh(dealers.iter().copied()) >= target.weights().quorum(),
            "dealings of {} votes are needed, else one party could know the coin; do not start this network",
            target.weights().quorum()
        );
        ensure!(
            dealings.sum(target, &dealers).is_some_and(|sum| sum == keys),
            "these dealings do not add up to the coin of the genesis; give exactly those that `seal` named"
        );
        let share = own.key.share(target, own.index, &keys, &dealers, dealings).context(
            "these keys cannot decrypt a value, and no opening shows it; give the openings, or do not start this network",
        )?;
        if !dealers.contains(&own.index) {
            exit::note("your own dealing is not part of this coin, so its secrecy rests on the other validators");
        }
        let file = self.keys.join("coin.key");
        secret::write(&file, &share.to_hex())?;
        exit::note(format_args!("the share of validator {} is in {}", own.index, file.display()));
        Ok(())
    }

    fn read(&self) -> anyhow::Result<(Ceremony, Own)> {
        let ceremony = Ceremony::read(&self.draft, &self.files)?;
        let own = Own::find(keys::load(&self.keys)?, &ceremony)?;
        Ok((ceremony, own))
    }

    /// Writes a message. A later one of its kind has all that the one before has.
    fn write(&self, ceremony: &Ceremony, own: &Own, message: Message) -> anyhow::Result<()> {
        let path = self.out.join(format!("{}-{}.json", message.name(), own.index));
        let Signed { signature, .. } = Signed::sign((own.index, message.clone()), &own.signer, &ceremony.domain());
        let signature = Bytes::copy_from_slice(&signature);
        let file = MessageFile { draft: ceremony.hash, validator: own.index, message, signature };
        replace(&path, &serde_json::to_string_pretty(&file)?)?;
        exit::note(format_args!("{} is for all validators", path.display()));
        Ok(())
    }
}

impl Seal {
    /// Makes the genesis.
    pub fn run(&self) -> anyhow::Result<Genesis> {
        let ceremony = Ceremony::read(&self.draft, &self.files)?;
        let Ceremony { target, dealings, .. } = &ceremony;
        let absent = ceremony.absent();
        let silent: BTreeSet<_> = dealings.dealt.keys().flat_map(|dealer| dealings.missing(target, *dealer)).collect();
        ensure!(
            self.missing || absent.is_empty() && silent.is_empty(),
            "dealings missing: {}; acknowledgements missing: {}; wait for them, or seal without them with --missing",
            list(absent),
            list(silent)
        );
        let coin = settle(target, target.weights(), dealings).with_context(|| {
            let quorum = target.weights().quorum();
            format!("the dealers whose values all members have must have {quorum} votes together; ask the others to acknowledge or to open")
        })?;
        let (coin_public_key, coin_shares) = coin.keys.to_genesis();
        let coin_draft = Some(ceremony.hash);
        let genesis = Genesis { coin_shares, coin_public_key, coin_draft, ..ceremony.draft.genesis.clone() };
        parse(&genesis.to_json()).context("the draft")?;
        write_new(&self.out, &genesis.to_json())?;
        if coin.qualified.len() < target.weights().members() {
            exit::note(format_args!(
                "the coin is made of the dealings of {}: give exactly these to `finish`",
                list(coin.qualified)
            ));
        }
        if !coin.exposed.is_empty() {
            exit::note(format_args!("warning: everybody knows the shares of {}", list(coin.exposed)));
        }
        Ok(genesis)
    }
}

/// A validator's own keys and index.
struct Own {
    key: CoinKey,
    signer: ConsensusKey,
    index: ValidatorIndex,
}

impl Own {
    fn find(keys: ValidatorKeys, ceremony: &Ceremony) -> anyhow::Result<Self> {
        let listed = keys.listed_in(&ceremony.draft.genesis);
        let (index, is_own) = listed.context("these keys are of no validator in the draft")?;
        let key = keys.stake.context("coin-seed.key is missing in the keys directory")?.coin;
        ensure!(
            is_own && ceremony.draft.coin_keys[index.as_usize()][..] == key.public(),
            "the draft has not the public.json of these keys for validator {index}; do not deal to it"
        );
        Ok(Self { key, signer: keys.consensus, index })
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

    /// Reads a draft and the messages for it.
    fn read(draft: &Path, files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut ceremony = Self::new(read(draft)?)?;
        let (mut acknowledgements, mut openings, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
        for path in files {
            let (validator, message) = ceremony.read_message(path)?;
            let is_first = seen.insert((validator, message.name()));
            ensure!(is_first, "{} is a second `{}` of validator {validator}", path.display(), message.name());
            match message {
                Message::Deal { dealing } => ceremony.add_dealing(path, validator, &dealing)?,
                Message::Ack { dealings } => acknowledgements.push((validator, dealings)),
                Message::Open { values } => openings.push((path, validator, values)),
            }
        }
        for (member, dealings) in acknowledgements {
            ceremony.acknowledge(member, dealings);
        }
        for (path, dealer, values) in openings {
            ceremony.add_opening(path, dealer, values)?;
        }
        Ok(ceremony)
    }

    fn read_message(&self, path: &Path) -> anyhow::Result<(ValidatorIndex, Message)> {
        let MessageFile { draft, validator, message, signature } = read(path)?;
        let (file, hash) = (path.display(), self.hash);
        ensure!(draft == hash, "{file} was made for another draft: {draft}, this one is {hash}");
        let listed = self.draft.genesis.validators.get(validator.as_usize());
        let listed = listed.with_context(|| format!("{file} names validator {validator}, which the draft has not"))?;
        let signer = ConsensusPublicKey::parse(&listed.consensus_key);
        let signed = signature[..].try_into().map(|signature| Signed { payload: (validator, message), signature });
        let verified = signer.zip(signed.ok()).and_then(|(signer, signed)| signed.verify(&signer, &self.domain()).ok());
        let verified =
            verified.with_context(|| format!("{file} is not signed by validator {validator}: somebody changed it"))?;
        Ok(verified.into_payload())
    }

    fn domain(&self) -> Domain {
        let chain_id = self.draft.genesis.chain_id;
        Domain { tag: "corniche-genesis-ceremony", chain_id, epoch: Epoch(0), committee_hash: self.hash }
    }

    fn add_dealing(&mut self, path: &Path, dealer: ValidatorIndex, bytes: &[u8]) -> anyhow::Result<()> {
        let dealt = wire::decode::<Dealing>(bytes).ok().and_then(|dealing| dealing.verify(&self.target, dealer));
        let Some(dealt) = dealt else {
            bail!("{} is no valid dealing; leave it out, and tell validator {dealer}", path.display());
        };
        // A dealer's own share is its own affair.
        self.dealings.acknowledged.entry(dealer).or_default().insert(dealer);
        self.dealings.dealt.insert(dealer, dealt);
        Ok(())
    }

    fn acknowledge(&mut self, member: ValidatorIndex, dealings: BTreeMap<ValidatorIndex, B256>) {
        for (dealer, digest) in dealings {
            let Some(dealt) = self.dealings.dealt.get(&dealer) else { continue };
            if dealt.digest() == digest {
                self.dealings.acknowledged.entry(dealer).or_default().insert(member);
            } else {
                exit::note(format_args!(
                    "validator {member} acknowledged another dealing of validator {dealer}, which made several"
                ));
            }
        }
    }

    fn add_opening(&mut self, path: &Path, dealer: ValidatorIndex, values: BTreeMap<u32, B256>) -> anyhow::Result<()> {
        let opening = CoinOpening { values: values.into_iter().map(|(x, value)| (x, value.0)).collect() };
        let dealt = self.dealings.dealt.get(&dealer);
        let dealt = dealt.with_context(|| format!("{} needs deal-{dealer}.json", path.display()))?;
        ensure!(dealt.admits(&opening), "{} does not show the values of deal-{dealer}.json", path.display());
        self.dealings.opened.insert(dealer, opening);
        Ok(())
    }

    /// Validators without a dealing.
    fn absent(&self) -> Vec<ValidatorIndex> {
        self.target.members().filter(|dealer| !self.dealings.dealt.contains_key(dealer)).collect()
    }

    /// Asks whether the others see the same draft.
    fn confirm(&self, confirmed: Option<B256>) -> anyhow::Result<()> {
        let hash = self.hash;
        if let Some(confirmed) = confirmed {
            ensure!(confirmed == hash, "the draft is {hash}, not {confirmed}");
            return Ok(());
        }
        let planned = identity_text(&Genesis { coin_draft: Some(hash), ..self.draft.genesis.clone() });
        planned.lines().filter(|line| !line.starts_with("genesis hash")).for_each(exit::note);
        let mut errors = std::io::stderr();
        write!(errors, "Is this what the others read? [y/N] ")?;
        errors.flush()?;
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        ensure!(matches!(answer.trim(), "y" | "Y" | "yes"), "not confirmed; compare the hash with the others first");
        Ok(())
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no such file of a genesis ceremony, or damaged", path.display()))
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = fs::OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.with_context(|| format!("cannot create {}; it is never overwritten", path.display()))?;
    writeln!(file, "{text}").with_context(|| format!("cannot write {}", path.display()))
}

/// Replaces a file as a whole.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    let write = || {
        let mut file = fs::File::create(&new)?;
        writeln!(file, "{text}")?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn list(members: impl IntoIterator<Item = ValidatorIndex>) -> String {
    let names: Vec<_> = members.into_iter().map(|member| member.to_string()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
