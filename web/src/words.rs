//! What the explorer says, in one place: to reword it, or to say it in another language, nothing else has to be touched.

/// The product.
pub const NAME: &str = "Corniche";
/// Of the window.
pub const EXPLORER: &str = "Corniche explorer";

/// In the navigation, with their pages in the same order.
pub mod nav {
    /// Newest blocks.
    pub const BLOCKS: &str = "Blocks";
    /// Newest transactions.
    pub const TRANSACTIONS: &str = "Transactions";
    /// Tokens.
    pub const TOKENS: &str = "Tokens";
    /// The committee.
    pub const VALIDATORS: &str = "Validators";
    /// The ordering.
    pub const DAG: &str = "Ordering";
    /// Daily numbers.
    pub const STATISTICS: &str = "Statistics";
    /// Peers.
    pub const NETWORK: &str = "Network";
    /// For programs.
    pub const API: &str = "API";
    /// Skips the navigation.
    pub const SKIP: &str = "Skip to content";
    /// The label of the search field, and what stands in it.
    pub const SEARCH: &str = "Search";
    /// What may be searched for.
    pub const SEARCH_HINT: &str = "Hash, block, address, token or method";
    /// Switches the colours.
    pub const THEME: &str = "Dark or light";
    /// Switches the unit of amounts.
    pub const UNIT: &str = "Unit of amounts";
}

/// The four words of a transaction, and how it may end otherwise; the same as in RPC and logs.
pub mod status {
    /// Waits in a pool.
    pub const PENDING: &str = "pending";
    /// Has its place.
    pub const ORDERED: &str = "ordered";
    /// Is in a block.
    pub const EXECUTED: &str = "executed";
    /// Signed by a quorum.
    pub const CERTIFIED: &str = "certified";
    /// Left the pool.
    pub const DROPPED: &str = "dropped";
    /// Another one took its place.
    pub const REPLACED: &str = "replaced";
    /// Executed, and took nothing back but its fee.
    pub const SUCCEEDED: &str = "succeeded";
    /// Executed, and undone but for its fee.
    pub const REVERTED: &str = "reverted";
}

/// Of the home page.
pub mod home {
    /// Heading.
    pub const TITLE: &str = "What the network is doing";
    /// The newest block.
    pub const NEWEST: &str = "Newest block";
    /// The newest certified one.
    pub const CERTIFIED: &str = "Certified";
    /// In the last minute.
    pub const THROUGHPUT: &str = "Transactions per second";
    /// Explains it.
    pub const THROUGHPUT_NOTE: &str = "over the last minute of blocks";
    /// From order to certificate.
    pub const LATENCY: &str = "Order to certificate";
    /// Explains it.
    pub const LATENCY_NOTE: &str = "median of the last 100 blocks seen here";
    /// In all.
    pub const TOTAL: &str = "Transactions in all";
    /// In all.
    pub const ACCOUNTS: &str = "Accounts";
    /// The list.
    pub const LATEST_BLOCKS: &str = "Latest blocks";
    /// The list.
    pub const LATEST_TRANSACTIONS: &str = "Latest transactions";
    /// The charts.
    pub const CHART_TRANSACTIONS: &str = "Transactions in each of the last blocks";
    /// The charts.
    pub const CHART_LATENCY: &str = "Milliseconds from order to certificate";
    /// Who signs.
    pub const HEALTH: &str = "Validators";
    /// Nothing yet.
    pub const EMPTY: &str = "No blocks yet. The first transaction makes one.";
}

/// Of blocks.
pub mod block {
    /// Before the number.
    pub const TITLE: &str = "Block";
    /// Parts of the page.
    pub const OVERVIEW: &str = "Overview";
    /// Parts of the page.
    pub const ORDERING: &str = "Ordering";
    /// What it means.
    pub const ORDERING_NOTE: &str =
        "Validators proposed batches; the engine agreed on one order for them, and the block is the next piece of that order.";
    /// Parts of the page.
    pub const CERTIFICATE: &str = "Certificate";
    /// What it means.
    pub const CERTIFICATE_NOTE: &str = "A quorum signed this block or a later one: nobody can take it back.";
    /// None yet.
    pub const NO_CERTIFICATE: &str = "Not certified yet: it is executed, and waits for the signatures of a quorum.";
    /// Parts of the page.
    pub const TRANSACTIONS: &str = "Transactions";
    /// Parts of the page.
    pub const SKIPPED: &str = "Ordered and not executed";
    /// What it means.
    pub const SKIPPED_NOTE: &str =
        "Ordered is not valid: every node checks again, and what fails the check costs nothing and leaves no receipt.";
    /// Rows.
    pub const HASH: &str = "Hash";
    /// Rows.
    pub const PARENT: &str = "Parent";
    /// Rows.
    pub const TIME: &str = "Time agreed on";
    /// Rows.
    pub const STATUS: &str = "Status";
    /// Rows.
    pub const GAS: &str = "Gas used";
    /// Rows.
    pub const BASE_FEE: &str = "Base fee";
    /// Rows.
    pub const SIZE: &str = "Size";
    /// Rows.
    pub const STATE_ROOT: &str = "State root";
    /// Rows.
    pub const RANDOMNESS: &str = "Randomness";
    /// Rows.
    pub const RECORD: &str = "Hash of the ordering record";
    /// Rows.
    pub const LEADER: &str = "Leader";
    /// Rows.
    pub const FEE_ADDRESS: &str = "Leader's fee address";
    /// Rows.
    pub const COMMITS: &str = "Commits";
    /// Rows.
    pub const BATCHES: &str = "Batches";
    /// Columns.
    pub const AUTHOR: &str = "Proposed by";
    /// Columns.
    pub const DIGEST: &str = "Batch";
    /// Columns.
    pub const RANGE: &str = "Transactions of it";
    /// Columns.
    pub const REASON: &str = "Reason";
    /// Rows.
    pub const SIGNERS: &str = "Signed by";
    /// Rows.
    pub const MISSED: &str = "Not among the signers";
    /// Rows.
    pub const COVERS: &str = "Certificate of block";
    /// Rows.
    pub const SIGNATURE: &str = "Aggregate signature";
    /// The genesis block.
    pub const GENESIS: &str = "The first block was not ordered by anybody: it is what the network began with.";
    /// Neighbours.
    pub const EARLIER: &str = "Earlier block";
    /// Neighbours.
    pub const LATER: &str = "Later block";
}

/// Of transactions.
pub mod transaction {
    /// Heading.
    pub const TITLE: &str = "Transaction";
    /// Columns and rows.
    pub const HASH: &str = "Hash";
    /// Columns and rows.
    pub const BLOCK: &str = "Block";
    /// Columns and rows.
    pub const FROM: &str = "From";
    /// Columns and rows.
    pub const TO: &str = "To";
    /// Columns and rows.
    pub const VALUE: &str = "Value";
    /// Columns and rows.
    pub const METHOD: &str = "Method";
    /// Columns and rows.
    pub const FEE: &str = "Fee";
    /// Columns and rows.
    pub const AGE: &str = "When";
    /// Rows.
    pub const STATUS: &str = "Status";
    /// Rows.
    pub const RESULT: &str = "Result";
    /// Rows.
    pub const AUTHOR: &str = "Proposed by";
    /// Rows.
    pub const NONCE: &str = "Nonce";
    /// Rows.
    pub const KIND: &str = "Type";
    /// Rows.
    pub const GAS: &str = "Gas";
    /// Rows.
    pub const GAS_PRICE: &str = "Price of gas";
    /// Rows.
    pub const INPUT: &str = "Input";
    /// Rows.
    pub const CREATED: &str = "Contract made";
    /// For a creation, in place of the recipient.
    pub const CREATION: &str = "makes a contract";
    /// Without input.
    pub const TRANSFER: &str = "transfer";
    /// Parts of the page.
    pub const LOGS: &str = "Logs";
    /// Parts of the page.
    pub const CALLS: &str = "Calls";
    /// Parts of the page.
    pub const TRANSFERS: &str = "Tokens moved";
    /// Parts of the page.
    pub const RAW: &str = "Raw";
    /// None.
    pub const NO_TRANSACTIONS: &str = "No transactions.";
    /// Times on the way.
    pub const TIMELINE: &str = "On its way";
    /// Of the timeline.
    pub const RECEIVED: &str = "received";
}

/// Of accounts.
pub mod account {
    /// Heading.
    pub const TITLE: &str = "Account";
    /// Heading of one with code.
    pub const CONTRACT: &str = "Contract";
    /// Rows.
    pub const BALANCE: &str = "Balance";
    /// Rows.
    pub const NONCE: &str = "Nonce";
    /// Rows.
    pub const TRANSACTIONS: &str = "Transactions";
    /// Rows.
    pub const MADE_BY: &str = "Made by";
    /// Rows.
    pub const FIRST_SEEN: &str = "First seen in block";
    /// The node did not answer.
    pub const UNKNOWN: &str = "the node does not answer";
}

/// Of the ordering.
pub mod dag {
    /// Heading.
    pub const TITLE: &str = "How the order comes about";
    /// Below the heading, of Mahi-Mahi.
    pub const LEAD: &str = "Every circle is a bundle of transactions that a validator proposed. Lines lead to the proposals it builds on. Nobody \
                            votes by a message of its own: who builds on what is the vote.";
    /// Below the heading, of Autobahn.
    pub const LEAD_LANES: &str = "Each validator drives a lane of its own: every circle is a car, a bundle of transactions that others hold as well. \
                                  Leaders in turn propose cuts through all lanes, drawn as upright lines: a cut that is agreed on orders all cars up to it. Cars stand before \
                                  the cut that was decided next after they came here; which of them it names, the node does not tell.";
    /// Nothing to show: a full node.
    pub const NONE: &str = "There is no picture here: the node that this explorer follows does not show its ordering.";
    /// What to do.
    pub const NONE_HINT: &str = "Only validators take part in the ordering. A full node gets blocks that are ordered already, so it has nothing to show. \
                                 Let the explorer follow a validator that keeps a trace of its ordering.";
    /// Nothing to show yet.
    pub const EMPTY: &str =
        "Nothing is known of the ordering yet. Idle networks are quiet: the first transaction sets it going.";
    /// The explorer was told to keep none.
    pub const DROPPED: &str =
        "things were let go by the node's trace since it started; what is missing here may have happened all the same.";
    /// Of the picture, for those who do not see it.
    pub const PICTURE: &str = "Proposals of validators by round, with what they build on";
    /// Of the other picture.
    pub const PICTURE_LANES: &str = "Lanes of cars, and the cuts through them";
    /// A column.
    pub const ROUND: &str = "Round";
    /// A column.
    pub const SLOT: &str = "Slot";
    /// A row.
    pub const VALIDATOR: &str = "Validator";
    /// The last column of lanes.
    pub const NOT_CUT: &str = "not ordered yet";
    /// Where to go.
    pub const EARLIER: &str = "Earlier";
    /// Where to go.
    pub const LATER: &str = "Later";
    /// Where to go.
    pub const NEWEST: &str = "Newest";
    /// Where to go.
    pub const SHOW: &str = "Show";
    /// Of the slider.
    pub const SCRUB: &str = "Back in time";
    /// Follows the newest.
    pub const FOLLOWS: &str =
        "Follows the network: new rounds come in at the right. Arrow keys step; from a circle they walk through the picture.";
    /// The panel.
    pub const FACTS: &str = "What is selected";
    /// The panel, empty.
    pub const FACTS_EMPTY: &str =
        "Select a circle for what it holds and builds on, or the shape around a leader for the votes and the verdict.";
    /// What was selected is not in the picture.
    pub const FACTS_GONE: &str = "What was selected is not among these rounds.";
    /// The table.
    pub const TABLE: &str = "The same as a table";
    /// The legend.
    pub const LEGEND: &str = "What the signs mean";
    /// The legend.
    pub const SIGN_ORDERED: &str = "proposal that is ordered; the larger, the more bytes of transactions";
    /// The legend.
    pub const SIGN_WAITS: &str = "proposal that waits for its place";
    /// The legend.
    pub const SIGN_COMMITTED: &str = "square: leader, committed";
    /// The legend.
    pub const SIGN_SKIPPED: &str = "crossed diamond: leader, skipped";
    /// The legend.
    pub const SIGN_UNDECIDED: &str = "dashed ring: leader, undecided";
    /// The legend.
    pub const SIGN_VOTE: &str = "triangle: votes for the selected leader";
    /// The legend.
    pub const SIGN_CERTIFICATE: &str = "star: certifies it, for it builds on a quorum of votes";
    /// The legend of lanes.
    pub const SIGN_CAR: &str = "car; the larger, the more bytes of transactions";
    /// The legend of lanes.
    pub const SIGN_FAST: &str = "square and full line: cut agreed on the fast way";
    /// The legend of lanes.
    pub const SIGN_SLOW: &str = "diamond and dashed line: cut agreed on the slow way";
    /// Too many lines.
    pub const FEW_EDGES: &str = "With so many validators only the lines of leaders and of what is selected are drawn.";
    /// Heading of the explanation.
    pub const EXPLAINED: &str = "In plain words";
    /// Facts.
    pub const DIGEST: &str = "Digest";
    /// Facts.
    pub const AUTHOR: &str = "Proposed by";
    /// Facts.
    pub const POSITION: &str = "Place in its lane";
    /// Facts.
    pub const PARENTS: &str = "Builds on";
    /// Facts.
    pub const CHILDREN: &str = "Built on by";
    /// Facts.
    pub const BYTES: &str = "Transactions in it";
    /// Facts.
    pub const PROPOSED: &str = "Signed here";
    /// Facts.
    pub const ACCEPTED: &str = "Taken in with its whole history";
    /// Facts.
    pub const LEADER: &str = "Leader";
    /// Facts.
    pub const VERDICT: &str = "Verdict";
    /// Facts.
    pub const WHY: &str = "Rule";
    /// Facts.
    pub const DECIDED: &str = "Decided";
    /// Facts.
    pub const VOTES: &str = "Votes";
    /// Facts.
    pub const CERTIFICATES: &str = "Certificates";
    /// Facts.
    pub const BLOCKS: &str = "Block";
    /// Facts: the blocks of a time.
    pub const BLOCKS_ABOUT: &str = "Blocks of that time";
    /// Why they cannot be told.
    pub const BLOCKS_NOTE: &str = "The node names no vertex in a block and no block for a round, so these go by the clock: blocks whose agreed time lies \
                                   between the first and the last vertex of this picture.";
    /// No block.
    pub const NO_BLOCK: &str = "none: it brought no transactions, or is not executed yet";
    /// The proposal is not known.
    pub const NO_VERTEX: &str = "not known here";
    /// No bytes.
    pub const NO_BYTES: &str = "none";
    /// Columns of the table.
    pub const PROPOSALS: &str = "Proposals";
    /// Columns of the table.
    pub const LEADERS: &str = "Leaders and verdicts";
    /// Columns of the table.
    pub const CARS: &str = "Cars that came before it";
    /// The verdicts, as the node says them.
    pub const COMMITTED: &str = "committed";
    /// See above.
    pub const SKIPPED: &str = "skipped";
    /// See above.
    pub const UNDECIDED: &str = "undecided";
    /// Nothing is known of a round.
    pub const UNKNOWN: &str = "not known here";
    /// Nobody knows yet.
    pub const NO_LEADERS: &str = "leaders not drawn yet";
    /// A validator proposed twice.
    pub const CONTRADICTION: &str = "signed two proposals for one place";

    /// What the words mean, under Mahi-Mahi.
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

    /// What the words mean, under Autobahn.
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
}

/// Of lists.
pub mod list {
    /// Further down.
    pub const OLDER: &str = "Older";
    /// Back up.
    pub const NEWEST: &str = "Newest";
    /// Nothing in it.
    pub const EMPTY: &str = "Nothing here.";
    /// Copies a value.
    pub const COPY: &str = "Copy";
}

/// Of failures.
pub mod failure {
    /// Heading.
    pub const NOT_FOUND: &str = "Not found";
    /// What to do.
    pub const NOT_FOUND_HINT: &str = "Search for a hash, a block's number, an address, a token or a method's name.";
    /// Heading.
    pub const BUSY: &str = "Too many requests";
    /// What to do.
    pub const BUSY_HINT: &str = "This address asked for more than its share. Wait a few seconds and load the page again.";
    /// Heading.
    pub const BROKEN: &str = "This did not work";
    /// What to do.
    pub const BROKEN_HINT: &str = "It is this explorer's fault, and its log says more. Load the page again in a moment.";
    /// Heading.
    pub const HALTED: &str = "This explorer stopped";
    /// What it cannot read.
    pub const BAD_REQUEST: &str = "That address is not right";
    /// Above every page while the node does not answer.
    pub const WAITS: &str = "The node does not answer. What is shown is what was known before.";
    /// Above every page while it catches up.
    pub const BEHIND: &str = "Catching up with the node:";
}
