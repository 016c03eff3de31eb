//! Output of `corniche validator status`.

use super::contract::Contract;
use corniche_contract_tool::in_whole_units;
use corniche_staking::interface::{Committee, Seat, Staking, Validator};
use corniche_types::{Epoch, TrustPoint, U256};
use serde_json::{Value, json};

/// A validator, and its votes in the running epoch.
pub struct Member {
    id: u32,
    validator: Validator,
    free: U256,
    epoch: u64,
    votes: u32,
}

impl Member {
    pub fn load(contract: &Contract<'_>, id: u32) -> anyhow::Result<Self> {
        let epoch = contract.epoch()?.epoch;
        let committee = contract.view(&Staking::committeeCall { epoch })?;
        Ok(Self {
            id,
            validator: contract.view(&Staking::validatorCall { id })?,
            free: contract.view(&Staking::freeCall { id })?,
            epoch,
            votes: committee.seats.iter().find(|seat| seat.id == id).map_or(0, |seat| seat.votes),
        })
    }

    pub fn to_json(&self) -> Value {
        let it = &self.validator;
        json!({
            "id": self.id,
            "owner": it.owner,
            "nextOwner": (!it.nextOwner.is_zero()).then_some(it.nextOwner),
            "operator": it.operator,
            "feeAddress": it.fee,
            "bonded": it.bonded.to_string(),
            "unbonding": it.queued.to_string(),
            "free": self.free.to_string(),
            "epoch": self.epoch,
            "votes": self.votes,
            "jailedUntil": it.jailedUntil,
            "consensusKey": it.consensusKey,
            "blsKey": it.blsKey,
            "networkKey": it.networkKey,
            "coinKey": it.coinKey,
            "endpoints": endpoints(&it.endpoints),
        })
    }

    pub fn to_text(&self, currency: &str) -> String {
        let it = &self.validator;
        let amount = |wei| format!("{} {currency}", in_whole_units(wei));
        let mut rows = vec![
            ("validator", self.id.to_string()),
            ("owner", it.owner.to_checksum(None)),
            ("operator", it.operator.to_checksum(None)),
            ("fee address", it.fee.to_checksum(None)),
            ("bonded", amount(it.bonded)),
            ("unbonding", format!("{}, of which {} are free", amount(it.queued), amount(self.free))),
            ("votes", format!("{} in epoch {}", self.votes, self.epoch)),
            ("consensus key", it.consensusKey.to_string()),
            ("BLS key", it.blsKey.to_string()),
            ("network key", it.networkKey.to_string()),
            ("coin key", it.coinKey.to_string()),
        ];
        if !it.nextOwner.is_zero() {
            rows.insert(2, ("next owner", it.nextOwner.to_checksum(None)));
        }
        if it.jailedUntil > self.epoch {
            rows.push(("jailed until", format!("epoch {}", it.jailedUntil)));
        }
        rows.extend(endpoints(&it.endpoints).into_iter().map(|endpoint| ("endpoint", endpoint)));
        let lines: Vec<_> = rows.into_iter().map(|(name, value)| format!("{name:<13}  {value}")).collect();
        lines.join("\n")
    }
}

/// Anybody can register any bytes: all that are not printable ASCII are escaped, so that they cannot control a terminal.
fn endpoints(bytes: &[u8]) -> Vec<String> {
    let endpoints = bytes.split(|byte| *byte == b'\n').filter(|endpoint| !endpoint.is_empty());
    endpoints.map(|endpoint| endpoint.escape_ascii().to_string()).collect()
}

/// The running epoch and its committee.
pub struct Sitting {
    epoch: Staking::epochReturn,
    committee: Committee,
    /// Records of the members, in the order of the seats. `None`: deleted after a slash.
    validators: Vec<Option<Validator>>,
    /// The newest end of an epoch, for new nodes. `None` in epoch 0.
    trust: Option<TrustPoint>,
}

impl Sitting {
    pub fn load(contract: &Contract<'_>) -> anyhow::Result<Self> {
        let epoch = contract.epoch()?;
        let committee = contract.view(&Staking::committeeCall { epoch: epoch.epoch })?;
        let validators = contract.views(committee.seats.iter().map(|seat| Staking::validatorCall { id: seat.id }))?;
        let trust = contract.client.trust_point(Epoch(epoch.epoch))?;
        Ok(Self { epoch, committee, validators, trust })
    }

    pub fn to_json(&self) -> Value {
        let member = |(seat, validator): (&Seat, &Option<Validator>)| {
            let validator = validator.as_ref();
            json!({
                "id": seat.id,
                "votes": seat.votes,
                "bonded": validator.map(|it| it.bonded.to_string()),
                "owner": validator.map(|it| it.owner),
            })
        };
        json!({
            "epoch": self.epoch.epoch,
            "startMs": self.epoch.start,
            "startHeight": self.epoch.startHeight,
            "endMs": self.epoch.end,
            "phase": self.epoch.phase,
            "committeeHash": self.committee.hash,
            "trust": self.trust.map(|trust| trust.to_string()),
            "unit": self.committee.unit.to_string(),
            "members": self.committee.seats.iter().zip(&self.validators).map(member).collect::<Vec<_>>(),
        })
    }

    pub fn to_text(&self, currency: &str) -> String {
        let phase = match self.epoch.phase {
            0 => "the next committee is not selected yet",
            1 => "the next committee is selected",
            3..=5 => "the next committee is selected, and its coin is being made",
            _ => "the next committee is this one",
        };
        let mut lines = vec![
            format!("epoch  {}, since block {}; {phase}", self.epoch.epoch, self.epoch.startHeight),
            format!("vote   {} {currency}", in_whole_units(self.committee.unit)),
        ];
        lines.extend(self.trust.map(|trust| format!("trust  {trust}")));
        lines.push(format!("\n{:>6}  {:>5}  {:<42}  stake, {currency}", "id", "votes", "owner"));
        for (seat, validator) in self.committee.seats.iter().zip(&self.validators) {
            let (owner, stake) = match validator {
                Some(it) => (it.owner.to_checksum(None), in_whole_units(it.bonded)),
                None => ("deleted".into(), "0".into()),
            };
            lines.push(format!("{:>6}  {:>5}  {owner:<42}  {stake}", seat.id, seat.votes));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::{Address, B256};

    fn units(count: u64) -> U256 {
        U256::from(count) * U256::from(1_000_000_000_000_000_000u64)
    }

    fn validator(endpoints: &'static [u8]) -> Validator {
        Validator {
            owner: Address::repeat_byte(0x11),
            nextOwner: Address::ZERO,
            operator: Address::repeat_byte(0x22),
            fee: Address::repeat_byte(0x33),
            bonded: units(10_000),
            queued: units(3),
            jailedUntil: 0,
            consensusKey: B256::repeat_byte(1),
            blsKey: vec![2; 96].into(),
            networkKey: B256::repeat_byte(3),
            coinKey: vec![4; 48].into(),
            endpoints: endpoints.into(),
        }
    }

    fn member(validator: Validator) -> Member {
        Member { id: 7, validator, free: units(1), epoch: 2, votes: 5 }
    }

    #[test]
    fn validator_is_printed() {
        let text = member(validator(b"/ip4/192.0.2.7/tcp/9545\n/dns/a.example/tcp/1")).to_text("CRN");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "validator      7");
        assert_eq!(lines[1], "owner          0x1111111111111111111111111111111111111111");
        assert_eq!(lines[4], "bonded         10000 CRN");
        assert_eq!(lines[5], "unbonding      3 CRN, of which 1 CRN are free");
        assert_eq!(lines[6], "votes          5 in epoch 2");
        assert_eq!(lines[11..], ["endpoint       /ip4/192.0.2.7/tcp/9545", "endpoint       /dns/a.example/tcp/1"]);

        let changing = Validator { nextOwner: Address::repeat_byte(0x44), jailedUntil: 3, ..validator(b"") };
        let text = member(changing).to_text("CRN");
        assert!(text.contains("\nnext owner     0x4444"), "{text}");
        assert!(text.ends_with("\njailed until   epoch 3"), "{text}");
        let json = member(validator(b"")).to_json();
        assert_eq!((&json["nextOwner"], &json["endpoints"]), (&Value::Null, &json!([])));
        assert_eq!(json["bonded"], "10000000000000000000000");
    }

    #[test]
    fn endpoints_cannot_control_terminal() {
        let hostile = member(validator(b"\x1b[2J\r\x9b\xff\xe2\x80\xae\n\nok"));
        let printable = |text: &str| text.bytes().all(|byte| byte == b'\n' || byte == b' ' || byte.is_ascii_graphic());
        assert!(printable(&hostile.to_text("CRN")));
        assert_eq!(hostile.to_json()["endpoints"], json!(["\\x1b[2J\\r\\x9b\\xff\\xe2\\x80\\xae", "ok"]));
    }

    #[test]
    fn committee_is_printed() {
        let seat = |id, votes| Seat { id, votes, signingHash: B256::ZERO };
        let seats = vec![seat(0, 16), seat(12, 1)];
        let sitting = Sitting {
            epoch: Staking::epochReturn { epoch: 4, start: 7, startHeight: 90, end: 9, frozenIn: 0, phase: 2 },
            committee: Committee { hash: B256::ZERO, unit: units(500), frozenIn: 0, seats },
            validators: vec![Some(validator(b"")), None],
            trust: Some(TrustPoint { chain_id: 7, epoch: Epoch(3), hash: B256::repeat_byte(0xab) }),
        };
        let expected = "\
epoch  4, since block 90; the next committee is this one
vote   500 CRN
trust  corniche-trust:1:7:3:0xabababababababababababababababababababababababababababababababab

    id  votes  owner                                       stake, CRN
     0     16  0x1111111111111111111111111111111111111111  10000
    12      1  deleted                                     0";
        assert_eq!(sitting.to_text("CRN"), expected);
        assert_eq!(sitting.to_json()["members"][1], json!({ "id": 12, "votes": 1, "bonded": null, "owner": null }));
    }
}
