//! The contract's Solidity interface. Amounts are in wei and times in ms.

// `sol!` also makes items that no comment in the interface describes.
#![allow(missing_docs)]

use alloy_sol_types::sol;

sol! {
    /// Stake, keys and committees of the validators.
    #[derive(Debug, PartialEq, Eq)]
    interface Staking {
        /// Registers the sender as the owner of a new validator, with the value as its stake.
        function register(SubmittedKeys keys, address fee, address operator) external payable returns (uint32 id);
        /// Adds the value to the stake, which must be a vote then.
        function add(uint32 id) external payable;
        /// Moves stake to the queue, from which it can be withdrawn later. The rest must be nothing, or enough for a vote. The
        /// queue has 16 entries; when it is full, the newest one waits for the new stake.
        function unbond(uint32 id, uint256 amount) external;
        /// Pays the stake that is free to the owner. A validator without any stake is deleted; if nothing was queued either,
        /// anybody may call this.
        function withdraw(uint32 id) external returns (uint256 amount);
        /// Replaces the keys from the next freeze on. Keys may stay as they are. The operator can do this if nobody has in
        /// this epoch, the owner at any time.
        function rotate(uint32 id, SubmittedKeys keys) external;
        /// Sets at most 4 multiaddresses as text, separated by newlines.
        function setEndpoints(uint32 id, bytes endpoints) external;
        /// Sets the recipient of fees and rewards, from the next freeze on.
        function setFee(uint32 id, address fee) external;
        /// Sets the account that may change keys and endpoints.
        function setOperator(uint32 id, address operator) external;
        /// Names the next owner, which has to accept.
        function transferOwnership(uint32 id, address to) external;
        /// Makes the sender the owner and the operator. The recipient of fees and rewards stays.
        function acceptOwnership(uint32 id) external;
        /// Reports two conflicting signatures of one validator.
        function report(bytes evidence) external;

        function validator(uint32 id) external view returns (Validator memory);
        /// Finds the validator that registered a consensus key, BLS key or network key, by the key's keccak-256. Also finds old
        /// keys and deleted validators.
        function idOf(bytes32 keyHash) external view returns (bool found, uint32 id);
        /// Returns one of the last 64 committees; a zero hash for other epochs.
        function committee(uint64 epoch) external view returns (Committee memory);
        /// Returns the running epoch. The phase is 0 before the freeze, 1 if the next committee takes over, 2 if this one is
        /// kept, and 3 to 5 while a coin is dealt, acknowledged and opened.
        function epoch() external view returns (uint64 epoch, uint64 start, uint64 startHeight, uint64 end, uint64 frozenIn, uint8 phase);
        function parameters() external view returns (Parameters memory);
        /// Returns the price of a vote in the sitting committee.
        function minimumStake() external view returns (uint256);
        /// Returns the stake that can be withdrawn now.
        function free(uint32 id) external view returns (uint256);

        event Registered(uint32 indexed id, address indexed owner, bytes32 consensusKey, uint256 amount);
        event Added(uint32 indexed id, uint256 amount);
        event UnbondStarted(uint32 indexed id, uint256 amount);
        event Withdrawn(uint32 indexed id, uint256 amount);
        event Rotated(uint32 indexed id, bytes32 consensusKey);
        event EndpointsChanged(uint32 indexed id);
        event OwnershipTransferred(uint32 indexed id, address indexed from, address indexed to);
        event Convicted(uint32 indexed id, uint64 indexed epoch, uint8 kind, uint256 slashed);

        error NotOwner();
        error NotOperator();
        error Unknown(uint32 id);
        error KeyUsed(bytes32 keyHash);
        /// Columns: 0 consensus, 1 BLS, 2 network, 3 coin.
        error BadKey(uint8 column);
        error BadProof(uint8 column);
        error FeeHasCode(address fee);
        /// Too many validators are registered.
        error Full();
        /// The amount, or the stake after the call, is below the limit.
        error TooLittle(uint256 limit);
        /// The amount is above the limit: the bonded stake.
        error TooMuch(uint256 limit);
        /// There are more than 4 endpoints, or more than 256 bytes of them.
        error BadEndpoints();
        error OncePerEpoch();
        error NothingFree();
        error NoEvidence(string reason);
        error AlreadyConvicted();
        error EpochsNeverEnd();
    }

    /// Keys to register, with signatures of the owner's address and of all keys. `sign_keys` makes them.
    #[derive(Debug, PartialEq, Eq)]
    struct SubmittedKeys {
        bytes32 consensus;
        bytes consensusProof;
        bytes bls;
        bytes blsProof;
        bytes32 network;
        bytes networkProof;
        bytes coin;
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Validator {
        address owner;
        address nextOwner;
        address operator;
        address fee;
        uint256 bonded;
        uint256 queued;
        /// First epoch in which it may be a candidate after a conviction.
        uint64 jailedUntil;
        bytes32 consensusKey;
        bytes blsKey;
        bytes32 networkKey;
        bytes coinKey;
        bytes endpoints;
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Committee {
        bytes32 hash;
        uint256 unit;
        uint64 frozenIn;
        Seat[] seats;
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Seat {
        uint32 id;
        uint32 votes;
        /// keccak-256 of consensus key and BLS key.
        bytes32 signingHash;
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Parameters {
        uint64 epochMs;
        uint64 closingMs;
        uint256 voteWei;
        uint32 mostVotes;
        uint32 maxVotes;
        uint32 maxValidators;
        uint32 minValidators;
        uint64 unbondingEpochs;
        uint64 coinMaxAge;
        uint32 slashBps;
        uint64 jailEpochs;
        uint256 rewardWei;
        uint64 snapshotMs;
    }
}
