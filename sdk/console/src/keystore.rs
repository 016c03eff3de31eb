//! Keystores: an account's key in a file, encrypted with a password. The format is Web3 Secret Storage,
//! version 3, as in geth, cast and wallets.
//!
//! The password is converted to a key by scrypt (or PBKDF2, in files of other programs). One half of that key
//! encrypts with AES-128-CTR. The other half goes into a keccak-256 hash that detects wrong passwords. A file
//! may come from anyone, so the cost of its key derivation is bounded.
//!
//! [`Keystore`] is the file of one account. [`Crypto`] is its encryption, which other files with secrets use too.

use aes::cipher::{KeyIvInit, StreamCipher};
use anyhow::{Context, anyhow, bail, ensure};
use corniche_crypto::EthereumKey;
use corniche_types::{Address, B256, keccak256};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::{
    fs,
    path::{Path, PathBuf},
};
use zeroize::Zeroizing;

/// Default of geth and cast. One attempt at a password takes about a second and 256 MiB.
pub const STANDARD: Cost = Cost { log_n: 18, r: 8, p: 1 };

/// Limits for files of other programs: 512 MiB, and sixteen times the standard work.
const MAX_MEMORY: u64 = 1 << 29;
const MAX_WORK: u64 = 1 << 25;
const MAX_ROUNDS: u32 = 10_000_000;

/// Cost of scrypt: `2^log_n` blocks of `128 r` bytes, `p` times.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub log_n: u8,
    pub r: u32,
    pub p: u32,
}

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Keystore {
    /// Without 0x, as in geth. Some programs omit it, because it reveals the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(alias = "Crypto")]
    crypto: Crypto,
    #[serde(default)]
    id: String,
    version: u32,
}

/// Encrypted bytes: the section `crypto` of a file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Crypto {
    cipher: String,
    cipherparams: CipherParameters,
    ciphertext: String,
    #[serde(flatten)]
    derivation: Derivation,
    mac: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct CipherParameters {
    iv: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kdf", content = "kdfparams", rename_all = "lowercase")]
enum Derivation {
    Scrypt { dklen: usize, n: u64, p: u32, r: u32, salt: String },
    Pbkdf2 { c: u32, dklen: usize, prf: String, salt: String },
}

type Cipher = ctr::Ctr128BE<aes::Aes128>;

impl Keystore {
    /// Encrypts a key. The result differs each time, because the salt is random.
    pub fn lock(key: &EthereumKey, password: &str, cost: Cost) -> anyhow::Result<Self> {
        let secret = Zeroizing::new(key.to_hex());
        let secret = Zeroizing::new(hex::decode(secret.trim_start_matches("0x")).context("a key is hexadecimal")?);
        let crypto = Crypto::lock(&secret, password, cost)?;
        Ok(Self { address: Some(hex::encode(key.address())), crypto, id: uuid(B256::random()), version: 3 })
    }

    /// Decrypts the key.
    ///
    /// # Errors
    ///
    /// The password is wrong, or the format is not supported.
    pub fn unlock(&self, password: &str) -> anyhow::Result<EthereumKey> {
        ensure!(self.version == 3, "it is of version {}; only version 3 is read", self.version);
        let secret = self.crypto.unlock(password)?;
        let secret = secret.as_slice().try_into().ok().and_then(|secret| EthereumKey::from_bytes(secret).ok());
        let key = secret.context("what it holds is not the key of an account")?;
        if let Some(said) = self.address() {
            ensure!(said == key.address(), "it says that it is for {said}, and holds the key of {}", key.address());
        }
        Ok(key)
    }

    /// Address stored in the file; not verified.
    pub fn address(&self) -> Option<Address> {
        self.address.as_deref()?.parse().ok()
    }

    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is not a keystore (Web3 Secret Storage, version 3)", path.display()))
    }

    /// Writes a new file of mode 0600.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        crate::secret::write(path, &serde_json::to_string(self)?)
    }
}

/// The MAC does not match: the password is another one, or the ciphertext is damaged.
#[derive(Debug, thiserror::Error)]
#[error("the password is wrong")]
pub struct WrongPassword;

impl Crypto {
    /// Encrypts bytes. The result differs each time, because the salt is random.
    pub fn lock(bytes: &[u8], password: &str, cost: Cost) -> anyhow::Result<Self> {
        let (salt, iv) = (B256::random(), B256::random());
        let n = 1u64 << cost.log_n;
        let derivation = Derivation::Scrypt { dklen: 32, n, p: cost.p, r: cost.r, salt: hex::encode(salt) };
        let derived = derivation.derive(password)?;
        let mut text = bytes.to_vec();
        cipher(&derived, &iv[..16])?.apply_keystream(&mut text);
        Ok(Self {
            cipher: "aes-128-ctr".into(),
            cipherparams: CipherParameters { iv: hex::encode(&iv[..16]) },
            mac: hex::encode(mac(&derived, &text)),
            ciphertext: hex::encode(text),
            derivation,
        })
    }

    /// Decrypts the bytes. The MAC does not cover the IV: a damaged IV gives other bytes and no error.
    ///
    /// # Errors
    ///
    /// [`WrongPassword`], or the format is not supported.
    pub fn unlock(&self, password: &str) -> anyhow::Result<Zeroizing<Vec<u8>>> {
        ensure!(self.cipher == "aes-128-ctr", "its cipher is {}, not aes-128-ctr", self.cipher);
        let decode = |text: &str, what: &str| hex::decode(text).with_context(|| format!("its {what} is not hexadecimal"));
        let mut text = Zeroizing::new(decode(&self.ciphertext, "ciphertext")?);
        let derived = self.derivation.derive(password)?;
        ensure!(decode(&self.mac, "mac")? == mac(&derived, &text).as_slice(), WrongPassword);
        cipher(&derived, &decode(&self.cipherparams.iv, "iv")?)?.apply_keystream(&mut text);
        Ok(text)
    }
}

impl Derivation {
    /// Derives 32 bytes of key.
    fn derive(&self, password: &str) -> anyhow::Result<Zeroizing<Vec<u8>>> {
        let (dklen, salt) = match self {
            Self::Scrypt { dklen, salt, .. } | Self::Pbkdf2 { dklen, salt, .. } => (*dklen, salt),
        };
        ensure!(dklen == 32, "its derived key has {dklen} bytes; 32 are what every program writes");
        let salt = hex::decode(salt).context("its salt is not hexadecimal")?;
        let mut derived = Zeroizing::new(vec![0; dklen]);
        match self {
            Self::Scrypt { n, p, r, .. } => {
                let work = n.saturating_mul((*r).into()).saturating_mul((*p).into());
                let memory = n.saturating_mul((*r).into()).saturating_mul(128);
                ensure!(n.is_power_of_two() && *n > 1, "scrypt's n is {n}, not a power of two");
                ensure!(
                    memory <= MAX_MEMORY && work <= MAX_WORK,
                    "it asks for more work than any program writes: scrypt with n = {n}, r = {r}, p = {p}"
                );
                let cost = scrypt::Params::new(n.ilog2() as u8, *r, *p, dklen).map_err(|error| anyhow!("scrypt: {error}"))?;
                scrypt::scrypt(password.as_bytes(), &salt, &cost, &mut derived).map_err(|error| anyhow!("scrypt: {error}"))?;
            }
            Self::Pbkdf2 { c, prf, .. } => {
                ensure!(prf == "hmac-sha256", "its prf is {prf}, not hmac-sha256");
                ensure!((1..=MAX_ROUNDS).contains(c), "it asks for {c} rounds of PBKDF2; at most {MAX_ROUNDS} are done");
                pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &salt, *c, &mut derived);
            }
        }
        Ok(derived)
    }
}

fn cipher(derived: &[u8], iv: &[u8]) -> anyhow::Result<Cipher> {
    ensure!(iv.len() == 16, "its iv has {} bytes, not 16", iv.len());
    Cipher::new_from_slices(&derived[..16], iv).map_err(|error| anyhow!("{error}"))
}

fn mac(derived: &[u8], text: &[u8]) -> B256 {
    keccak256([&derived[16..], text].concat())
}

/// Random UUID (version 4); nothing reads it.
fn uuid(random: B256) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&random[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex::encode(bytes);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

/// Directory of keystores that are given by name: `CORNICHE_KEYSTORES`, or `.corniche/keystores` in the home
/// directory.
pub fn directory() -> anyhow::Result<PathBuf> {
    if let Some(directory) = std::env::var_os("CORNICHE_KEYSTORES") {
        return Ok(directory.into());
    }
    let home = std::env::var_os("HOME").context("there is no HOME; say where keystores lie with CORNICHE_KEYSTORES")?;
    Ok(Path::new(&home).join(".corniche/keystores"))
}

/// Path of a keystore given by path or name.
pub fn find(given: &Path) -> anyhow::Result<PathBuf> {
    if given.exists() || given.components().count() > 1 {
        return Ok(given.to_owned());
    }
    let named = directory()?.join(given);
    ensure!(
        named.exists(),
        "there is neither a file {} nor a keystore of that name: {} has none",
        given.display(),
        directory()?.display()
    );
    Ok(named)
}

/// Opens the keystore with this path or name and returns its key.
pub fn open(given: &Path, password_file: Option<&Path>) -> anyhow::Result<EthereumKey> {
    let path = find(given)?;
    unlock(&path, &Keystore::open(&path)?, password_file)
}

/// Unlocks the keystore read from `path`; prompts for the password if it is not given.
pub fn unlock(path: &Path, keystore: &Keystore, password_file: Option<&Path>) -> anyhow::Result<EthereumKey> {
    let password = password(password_file, &format!("password of {}: ", path.display()))?;
    keystore.unlock(&password).with_context(|| format!("cannot open {}", path.display()))
}

/// Reads a password from a file, from the environment variable `CORNICHE_PASSWORD`, or from the terminal.
pub fn password(file: Option<&Path>, ask: &str) -> anyhow::Result<Zeroizing<String>> {
    if let Some(path) = file {
        let text = Zeroizing::new(fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?);
        return Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned()));
    }
    if let Ok(password) = std::env::var("CORNICHE_PASSWORD") {
        return Ok(Zeroizing::new(password));
    }
    match rpassword::prompt_password(ask) {
        Ok(password) => Ok(Zeroizing::new(password)),
        Err(_) => bail!("there is no terminal to ask for the password at: give --password-file, or set CORNICHE_PASSWORD"),
    }
}

/// Reads the password of a new file like [`password`]; the terminal prompts for it twice.
pub fn new_password(file: Option<&Path>) -> anyhow::Result<Zeroizing<String>> {
    let new = password(file, "new password: ")?;
    if file.is_none() && std::env::var_os("CORNICHE_PASSWORD").is_none() {
        let again = password(None, "repeat the password: ")?;
        ensure!(*new == *again, "the passwords differ; nothing was written");
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key and password of the specification's examples.
    const SECRET: &str = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";
    const CHEAP: Cost = Cost { log_n: 4, r: 8, p: 1 };

    /// Examples of the Web3 Secret Storage Definition.
    const BY_SCRYPT: &str = r#"{"crypto": {"cipher": "aes-128-ctr", "cipherparams": {"iv": "83dbcc02d8ccb40e466191a123791e0e"},
        "ciphertext": "d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c", "kdf": "scrypt",
        "kdfparams": {"dklen": 32, "n": 262144, "p": 8, "r": 1, "salt": "ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19"},
        "mac": "2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097"},
        "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6", "version": 3}"#;
    const BY_PBKDF2: &str = r#"{"crypto": {"cipher": "aes-128-ctr", "cipherparams": {"iv": "6087dab2f9fdbbfaddc31a909735c1e6"},
        "ciphertext": "5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46", "kdf": "pbkdf2",
        "kdfparams": {"c": 262144, "dklen": 32, "prf": "hmac-sha256", "salt": "ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},
        "mac": "517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},
        "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6", "version": 3}"#;

    /// From geth's tests: scrypt with the usual parameters, but cheaper.
    const OF_GETH: &str = r#"{"address":"45dea0fb0bba44f4fcf290bba71fd57d7117cbb8","crypto":{"cipher":"aes-128-ctr",
        "ciphertext":"b87781948a1befd247bff51ef4063f716cf6c2d3481163e9a8f42e1f9bb74145","cipherparams":{"iv":"dc4926b48a105133d2f16b96833abf1e"},
        "kdf":"scrypt","kdfparams":{"dklen":32,"n":2,"p":1,"r":8,"salt":"004244bbdc51cadda545b1cfa43cff9ed2ae88e08c61f1479dbb45410722f8f0"},
        "mac":"39990c1684557447940d4c69e06b1b82b2aceacb43f284df65c956daf3046b85"},"id":"ce541d8d-c79b-40f8-9f8c-20f59616faba","version":3}"#;

    #[test]
    fn foreign_keystores_are_read() {
        let keystore: Keystore = serde_json::from_str(BY_PBKDF2).unwrap();
        assert_eq!(keystore.unlock("testpassword").unwrap().to_hex().trim_start_matches("0x"), SECRET);
        // Compares the address in the file with the key's.
        let keystore: Keystore = serde_json::from_str(OF_GETH).unwrap();
        keystore.unlock("").unwrap();
    }

    /// The specification's other example has n = 2^18 with r = 1, but RFC 7914 requires n below 2^16 there;
    /// no program writes that.
    #[test]
    fn invalid_scrypt_parameters_are_refused() {
        let keystore: Keystore = serde_json::from_str(BY_SCRYPT).unwrap();
        let error = keystore.unlock("testpassword").unwrap_err().to_string();
        assert!(error.contains("scrypt"), "{error}");
    }

    #[test]
    fn keystore_opens_with_its_password_only() {
        let key = EthereumKey::from_hex(SECRET).unwrap();
        let text = serde_json::to_string(&Keystore::lock(&key, "correct horse", CHEAP).unwrap()).unwrap();
        assert!(!text.contains(SECRET));
        let keystore: Keystore = serde_json::from_str(&text).unwrap();
        assert_eq!(keystore.address(), Some(key.address()));
        assert_eq!(keystore.unlock("correct horse").unwrap().to_hex(), key.to_hex());
        assert_eq!(keystore.unlock("Correct horse").unwrap_err().to_string(), "the password is wrong");
        let again = Keystore::lock(&key, "correct horse", CHEAP).unwrap();
        assert_ne!(again.crypto.ciphertext, keystore.crypto.ciphertext);
    }

    #[test]
    fn bytes_of_any_length_are_encrypted() {
        for length in [0, 1, 32, 1_000] {
            let bytes = vec![7u8; length];
            let locked = Crypto::lock(&bytes, "correct horse", CHEAP).unwrap();
            assert_eq!(*locked.unlock("correct horse").unwrap(), bytes);
            assert!(locked.unlock("").unwrap_err().is::<WrongPassword>(), "{length}");
        }
    }

    #[test]
    fn costly_or_invalid_keystore_is_refused() {
        let key = EthereumKey::from_hex(SECRET).unwrap();
        let good = serde_json::to_value(Keystore::lock(&key, "", CHEAP).unwrap()).unwrap();
        assert_eq!(good["crypto"]["kdf"], "scrypt");
        for (pointer, value, says) in [
            ("/crypto/kdfparams/n", serde_json::json!(1u64 << 40), "more work"),
            ("/crypto/kdfparams/n", serde_json::json!(u64::MAX), "power of two"),
            ("/crypto/kdfparams/n", serde_json::json!(0), "power of two"),
            ("/crypto/kdfparams/p", serde_json::json!(u32::MAX), "more work"),
            ("/crypto/kdfparams/r", serde_json::json!(0), "scrypt"),
            ("/crypto/kdfparams/dklen", serde_json::json!(1 << 30), "32"),
            ("/crypto/cipher", serde_json::json!("rot13"), "rot13"),
            ("/crypto/cipherparams/iv", serde_json::json!("00"), "iv"),
            ("/version", serde_json::json!(4), "version"),
            ("/address", serde_json::json!("00".repeat(20)), "holds the key of"),
        ] {
            let mut changed = good.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            let error = serde_json::from_value::<Keystore>(changed).unwrap().unlock("").unwrap_err();
            assert!(format!("{error:#}").contains(says), "{pointer}: {error:#}");
        }
    }

    #[test]
    fn identifier_is_a_version_4_uuid() {
        assert_eq!(uuid(B256::repeat_byte(0xff)), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
