//! Texts of the page that shows the consensus DAG.

/// Heading.
pub const TITLE: &str = "How the order comes about";
/// Introduction for Mahi-Mahi.
pub const LEAD: &str = "Every circle is a bundle of transactions that a validator proposed. Lines lead to the proposals it builds on. Nobody \
                        votes by a message of its own: who builds on what is the vote.";
/// Introduction for Autobahn.
pub const LEAD_LANES: &str = "Each validator drives a lane of its own: every circle is a car, a bundle of transactions that \
     others hold as well. Leaders in turn propose cuts through all lanes, drawn as upright lines: a cut that is agreed on \
     orders all cars up to it. A car is drawn before the first cut that was decided after the car came here: the node does \
     not tell which cars a cut names.";
/// Note if the node has no DAG, because it is a full node.
pub const NONE: &str = "There is no picture here: this explorer is not shown how the order comes about.";
/// Advice below [`NONE`].
pub const NONE_HINT: &str = "Only validators take part in the ordering. A full node gets blocks that are ordered already, so it has nothing to show. \
                             Let the explorer follow a validator that keeps a trace of its ordering.";
/// Note while no round is known.
pub const EMPTY: &str = "Nothing is known of the ordering yet. Idle networks are quiet: the first transaction sets it going.";
/// Note about events that the node dropped; their number precedes it.
pub const DROPPED: &str =
    "events were dropped by the node's trace since it started: some of what is missing here may have happened.";
/// Accessible name of the picture under Mahi-Mahi.
pub const PICTURE: &str = "Proposals of validators by round, with what they build on";
/// Accessible name of the picture under Autobahn.
pub const PICTURE_LANES: &str = "Lanes of cars, and the cuts through them";
/// Column header.
pub const ROUND: &str = "Round";
/// Column header.
pub const SLOT: &str = "Slot";
/// Row label.
pub const VALIDATOR: &str = "Validator";
/// Name of a proposal in a lane; its position follows.
pub const CAR: &str = "Car";
/// Last column of lanes: cars that no cut ordered yet.
pub const NOT_CUT: &str = "not ordered yet";
/// Replaces [`NOT_CUT`] if newer slots exist. The column then contains cars whose position another car of the lane had taken.
pub const CAME_LATER: &str = "came later";
/// Link label.
pub const EARLIER: &str = "Earlier";
/// Link label.
pub const LATER: &str = "Later";
/// Link label.
pub const NEWEST: &str = "Newest";
/// Button label.
pub const SHOW: &str = "Show";
/// Label of the slider.
pub const SCRUB: &str = "Back in time";
/// Note while the picture follows the newest rounds.
pub const FOLLOWS: &str =
    "Follows the network: new rounds come in at the right. Arrow keys step; from a circle they walk through the picture.";
/// Heading of the details panel.
pub const FACTS: &str = "What is selected";
/// Note in the empty panel under Mahi-Mahi.
pub const FACTS_EMPTY: &str = "Select a circle to see what the proposal holds and builds on, or the shape around a leader to \
     see its votes and the verdict.";
/// Note in the empty panel under Autobahn.
pub const FACTS_EMPTY_LANES: &str = "Select a circle to see what the car holds, what it builds on and which validators hold \
     it. Select the sign on a cut to see its leader, its votes and how it was agreed on.";
/// Note if the selected item is not in the picture.
pub const FACTS_GONE: &str = "What was selected is not among these rounds.";
/// Summary above the table with the content of the picture.
pub const TABLE: &str = "The same as a table";
/// Heading of the legend.
pub const LEGEND: &str = "What the signs mean";
/// Legend entry.
pub const SIGN_ORDERED: &str = "proposal that is ordered; the larger, the more bytes of transactions";
/// Legend entry.
pub const SIGN_WAITS: &str = "proposal that waits for its place";
/// Legend entry.
pub const SIGN_COMMITTED: &str = "square: leader, committed";
/// Legend entry.
pub const SIGN_SKIPPED: &str = "crossed diamond: leader, skipped";
/// Legend entry.
pub const SIGN_UNDECIDED: &str = "dashed ring: leader, undecided";
/// Legend entry.
pub const SIGN_VOTE: &str = "triangle: votes for the selected leader";
/// Legend entry.
pub const SIGN_CERTIFICATE: &str = "star: certifies it, for it builds on a quorum of votes";
/// Legend entry for Autobahn.
pub const SIGN_CAR: &str = "car that was here when a cut was decided; the larger, the more bytes of transactions";
/// Legend entry for Autobahn.
pub const SIGN_CAR_WAITS: &str = "car that came after the newest cut";
/// Legend entry for Autobahn.
pub const SIGN_FAST: &str = "square and full line: cut agreed on the fast way";
/// Legend entry for Autobahn.
pub const SIGN_SLOW: &str = "diamond and dashed line: cut agreed on the slow way";
/// Legend entry for Autobahn.
pub const SIGN_SIGNED: &str = "triangle: voted for the selected cut, or holds a copy of the selected car";
/// Legend entry for Autobahn.
pub const SIGN_CONFIRMED: &str = "star: confirmed the votes for the selected cut, in the second step of the slow way";
/// Label of the leader's round in the selected leader's wave.
pub const PROPOSES: &str = "proposes";
/// Label of the voting round in this wave.
pub const CASTS_VOTES: &str = "votes";
/// Label of the certifying round in this wave.
pub const CERTIFIES: &str = "certifies";
/// Note if the picture does not draw all lines.
pub const FEW_EDGES: &str = "With so many validators only the lines of leaders and of what is selected are drawn.";
/// Heading above the explanation.
pub const EXPLAINED: &str = "In plain words";
/// Row label in the details panel.
pub const DIGEST: &str = "Digest";
/// Row label in the details panel.
pub const AUTHOR: &str = "Proposed by";
/// Row label in the details panel.
pub const POSITION: &str = "Place in its lane";
/// Row label in the details panel.
pub const PARENTS: &str = "Builds on";
/// Row label in the details panel.
pub const CHILDREN: &str = "Built on by";
/// Row label in the details panel.
pub const BYTES: &str = "Transactions in it";
/// Row label in the details panel.
pub const PROPOSED: &str = "Signed here";
/// Row label in the details panel.
pub const ACCEPTED: &str = "Taken in with its whole history";
/// Row label in the details panel.
pub const LEADER: &str = "Leader";
/// Row label in the details panel.
pub const VERDICT: &str = "Verdict";
/// Row label in the details panel.
pub const WHY: &str = "Rule";
/// Row label in the details panel.
pub const DECIDED: &str = "Decided";
/// Row label in the details panel.
pub const PROPOSAL: &str = "Its proposal";
/// Row label in the details panel.
pub const VOTES: &str = "Votes";
/// Row label in the details panel.
pub const CERTIFICATES: &str = "Certificates";
/// Row label in the details panel of a cut.
pub const CONFIRMATIONS: &str = "Confirmations";
/// Row label in the details panel of a car.
pub const HOLDERS: &str = "Held by";
/// Row label in the details panel.
pub const BLOCKS: &str = "Block";
/// Row label in the details panel.
pub const COMMIT: &str = "Commit";
/// Row label in the details panel.
pub const BATCH: &str = "Its batch";
/// Heading above the blocks of the picture.
pub const BLOCKS_HERE: &str = "Blocks of these rounds";
/// Explains [`BLOCKS_HERE`].
pub const BLOCKS_NOTE: &str = "Blocks that hold something of what leaders of these rounds committed. A leader, or a proposal, that is selected names its own.";
/// Replaces the blocks if there are none.
pub const NO_BLOCK: &str = "none: it brought no transactions, or is not executed yet";
/// Replaces an unknown proposal.
pub const NO_VERTEX: &str = "not known here";
/// Replaces the size of an empty proposal.
pub const NO_BYTES: &str = "none";
/// Replaces the size of an empty proposal in a sentence.
pub const NO_TRANSACTIONS: &str = "no transactions";
/// Column header.
pub const PROPOSALS: &str = "Proposals";
/// Column header.
pub const LEADERS: &str = "Leaders and verdicts";
/// Column header.
pub const CARS: &str = "Cars that came before it";
/// Verdict, in the node's words.
pub const COMMITTED: &str = "committed";
/// Verdict, in the node's words.
pub const SKIPPED: &str = "skipped";
/// Verdict, in the node's words.
pub const UNDECIDED: &str = "undecided";
/// Replaces an unknown round or value.
pub const UNKNOWN: &str = "not known here";
/// Note for a round whose leaders are not drawn yet.
pub const NO_LEADERS: &str = "leaders not drawn yet";
/// Tag for two proposals of one validator for one place.
pub const CONTRADICTION: &str = "signed two proposals for one place";
/// Error: invalid selection.
pub const BAD_PICK: &str = "What is selected is named by a digest of 32 bytes, 0x and 64 digits, by an author and the digest of its batch, as in \
                            2-0x…, or for a leader by round and rank, as in 17.0.";

/// Terms of Mahi-Mahi and their explanations.
pub const WORDS: [(&str, &str); 6] = [
    (
        "Round",
        "Validators propose in step: a proposal of a round builds on proposals of at least a quorum of validators of the round before, and \
         on their whole history. Nobody waits for anybody in particular, so a slow validator holds up nothing.",
    ),
    (
        "Leader",
        "A few rounds later a common coin, which needs shares of a quorum and which nobody knows before, draws leaders for the round. Because \
         the votes are cast by then, nobody can stop just the proposals that will matter.",
    ),
    (
        "Vote",
        "A proposal of the voting round votes for a leader if the first proposal of that leader's round and author that its lines lead to is \
         the leader's. A proposal of the next round that builds on votes of a quorum is a certificate.",
    ),
    (
        "Commit",
        "When validators of a quorum have certificates, the leader's proposal is committed, and everything that its lines lead to gets its \
         place in the order: first what is older. Blocks are cut from that order.",
    ),
    (
        "Skip",
        "When a quorum does not vote for a leader, because its proposal came late or never, its slot is passed over at once. Nothing is lost: a \
         proposal that came late is taken along by a later leader.",
    ),
    (
        "Undecided",
        "Neither happened yet. Then a later leader that commits decides: if a certificate lies in its history, the slot commits, otherwise it \
         is skipped. What comes after an undecided slot waits for it.",
    ),
];

/// Terms of Autobahn and their explanations.
pub const WORDS_LANES: [(&str, &str); 6] = [
    (
        "Lane and car",
        "Each validator lines up its bundles of transactions as cars, one behind the other. A car is safe on the road when so many validators \
         hold it that one of them is honest. Lanes need no leader and go on when agreement stands still.",
    ),
    (
        "Slot",
        "Places in the order are numbered; several slots are worked on at the same time. Here a slot is called by the number that blocks \
         call a commit.",
    ),
    (
        "Leader",
        "Slots have leaders in turn. The leader proposes a cut: how far each lane is. A validator that is quick has more cars in a cut.",
    ),
    (
        "Vote",
        "Validators vote for the cut by message. If all answer at once, that is enough: the fast way. Otherwise a quorum votes and confirms in \
         a second step: the slow way.",
    ),
    (
        "Commit",
        "An agreed cut orders every car up to it that no earlier cut had, lane by lane. One cut catches up with whatever was driven during \
         a bad time.",
    ),
    (
        "Skip",
        "There is none: a slot always commits. If a leader is silent the validators move to the next view of the slot, which has another leader; \
         the view in the rule tells how often.",
    ),
];

/// Prefixes of the engine's rules and their explanations. The first matching prefix applies.
pub const RULES: [(&str, &str); 10] = [
    (
        "direct:",
        "proposals of a quorum of validators certify it: each builds on votes of a quorum. Nothing that comes later can change that.",
    ),
    ("skipped: no block", "the leader proposed nothing in this round that anybody built on, so nobody can vote for it."),
    ("skipped: no votes", "nobody votes for it, so it can never have a certificate."),
    (
        "skipped: anchor",
        "neither votes nor their absence were enough by themselves. A later committed leader decides, and no certificate lies in its history.",
    ),
    ("skipped:", "a quorum does not vote for it, so it can never have a certificate."),
    (
        "anchor",
        "it was not certified often enough by itself. A later committed leader decides, and a certificate lies in its history.",
    ),
    ("fast in view 0", "all validators voted for the first leader's cut at once, which is enough without a second step."),
    ("slow in view 0", "not all voted in time: a quorum voted for the first leader's cut, and confirmed in a second step."),
    ("fast", "earlier leaders of the slot were not answered in time. Then all voted for this one's cut at once."),
    (
        "slow",
        "earlier leaders of the slot were not answered in time. Then a quorum voted for this one's cut, and confirmed in a second step.",
    ),
];
/// Explanation of a rule without an entry in [`RULES`].
pub const OTHER_RULE: &str = "in the engine's words.";

/// Error: no round is known yet.
pub fn no_round_yet(round: &str) -> String {
    format!("There is no round {round} here: none is known yet.")
}

/// Error: the round is outside of the stored range.
pub fn not_kept(round: &str, oldest: &str, newest: &str) -> String {
    format!("There is no round {round} here. Rounds {oldest} to {newest} are kept.")
}

/// Error: all requested rounds are outside of the stored range.
pub fn none_kept(oldest: &str, newest: &str) -> String {
    format!("None of these rounds is kept. Those from {oldest} to {newest} are.")
}

/// A proposal in one sentence: position, author, size and number of parents.
pub fn proposal(place: &str, author: u64, bytes: &str, parents: usize) -> String {
    format!("{place}, {VALIDATOR} {author}: {bytes}, {}", builds_on(parents))
}

/// Number of parents of a proposal.
pub fn builds_on(parents: usize) -> String {
    format!("builds on {parents}")
}

/// A leader of Mahi-Mahi in one sentence.
pub fn leader(round: u64, rank: u64, validator: u64, verdict: &str) -> String {
    format!("{LEADER} {rank} of round {round}: validator {validator}, {verdict}")
}

/// A cut of Autobahn in one sentence.
pub fn cut(slot: u64, leader: u64, verdict: &str) -> String {
    format!("{SLOT} {slot}, {VALIDATOR} {leader} leads: {verdict}")
}

/// Rank of a leader whose round is already given.
pub fn rank(rank: u64) -> String {
    format!("rank {rank}")
}

/// Rank of a leader, shown beside its validator.
pub fn rank_in_round(rank: u64) -> String {
    format!("rank {rank} of its round")
}

/// Number of votes for a leader.
pub fn votes(voters: usize, proposals: usize, round: u64, quorum: usize) -> String {
    format!("{voters} of {proposals} proposals of round {round}, a quorum is {quorum}")
}

/// Number of certificates for a leader.
pub fn certificates(count: usize, round: u64) -> String {
    format!("{count} in round {round}")
}

/// Number of signers out of all validators.
pub fn signers(signers: usize, validators: u64) -> String {
    format!("{signers} of {validators} validators")
}

/// [`signers`] with the size of the quorum.
pub fn signers_of_quorum(signers: usize, validators: u64, quorum: usize) -> String {
    format!("{}, a quorum is {quorum}", self::signers(signers, validators))
}

/// Number of validators, if they are too many to name.
pub fn validators(count: usize) -> String {
    format!("{count} validators")
}

/// Holders of a car, in a sentence.
pub fn held_by(names: &str) -> String {
    format!("held by {names}")
}

/// Voters for a cut, in the table.
pub fn voted_by(names: &str) -> String {
    format!("voted by {names}")
}

/// Validators that confirmed a cut in the second step, in the table.
pub fn confirmed_by(names: &str) -> String {
    format!("confirmed by {names}")
}

/// Time between the signature of a proposal and its acceptance.
pub fn after_signed(took: &str) -> String {
    format!("{took} after it was signed")
}

/// Time between the signature of the leader's proposal and the verdict.
pub fn after_leader_signed(took: &str) -> String {
    format!("{took} after the leader's proposal was signed")
}

/// Time between the arrival of the leader's proposal and the verdict, if another validator signed the proposal.
pub fn after_leader_came(took: &str) -> String {
    format!("{took} after the leader's proposal came here")
}

/// Time between the arrival of a proposal and the verdict, in the table.
pub fn after_came(took: &str) -> String {
    format!("{took} after its proposal came")
}

/// Reason for a missing picture: the operator configured the explorer to keep no rounds.
pub const KEEPS_NONE: &str = "the explorer was told to keep no rounds";

/// Texts of the picture's script, by the names the script uses. The script replaces `{}` by a value.
pub const SCRIPT: [(&str, &str); 6] = [
    ("decidedAfterSigned", "decided {} ms after it was signed"),
    ("decidedAfterCame", "decided {} ms after it came"),
    ("digest", "digest {}"),
    ("parents", "builds on {}"),
    ("accepted", "taken in {}"),
    ("acceptedAfter", "{} ms after it was signed"),
];
