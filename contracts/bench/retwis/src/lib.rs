//! Retwis: users follow each other, post, and read the newest posts of others. The numbers of keys that transactions read and
//! write are those of TAPIR's evaluation (2015): add user 1 and 3, follow 2 and 2, post 3 and 5, timeline 1 to 10 and none.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::vec::Vec;
use alloy_primitives::{B256, U256};
use alloy_sol_types::sol;
use stylus_sdk::prelude::*;

sol! {
    error UserExists(uint256 user);
    error NoSuchUser(uint256 user);
}

sol_storage! {
    #[entrypoint]
    pub struct Retwis {
        mapping(uint256 => uint256) joined;
        mapping(uint256 => bytes32) names;
        mapping(uint256 => uint256) following;
        mapping(uint256 => uint256) followers;
        mapping(uint256 => uint256) posts;
        /// The newest two posts have separate slots, so that a timeline reads one slot per user.
        mapping(uint256 => bytes32) newest;
        mapping(uint256 => bytes32) previous;
        /// All posts and their times. The key is (user << 64) | number of the post.
        mapping(uint256 => bytes32) texts;
        mapping(uint256 => uint256) times;
    }
}

#[derive(SolidityError)]
pub enum RetwisError {
    UserExists(UserExists),
    NoSuchUser(NoSuchUser),
}

#[public]
impl Retwis {
    pub fn add_user(&mut self, user: U256, name: B256) -> Result<(), RetwisError> {
        if !self.joined.get(user).is_zero() {
            return Err(RetwisError::UserExists(UserExists { user }));
        }
        let now = self.now();
        self.joined.insert(user, now);
        self.names.insert(user, name);
        self.newest.insert(user, name);
        Ok(())
    }

    pub fn follow(&mut self, user: U256, other: U256) {
        let following = self.following.get(user) + U256::ONE;
        self.following.insert(user, following);
        let followers = self.followers.get(other) + U256::ONE;
        self.followers.insert(other, followers);
    }

    /// Returns the post's number.
    pub fn post(&mut self, user: U256, text: B256) -> Result<U256, RetwisError> {
        if self.joined.get(user).is_zero() {
            return Err(RetwisError::NoSuchUser(NoSuchUser { user }));
        }
        let number = self.posts.get(user);
        let before = self.newest.get(user);
        let key = post_key(user, number);
        let now = self.now();
        self.texts.insert(key, text);
        self.times.insert(key, now);
        self.posts.insert(user, number + U256::ONE);
        self.previous.insert(user, before);
        self.newest.insert(user, text);
        Ok(number)
    }

    /// Returns each user's newest post: the name of a user without posts, zero for an unknown user.
    pub fn timeline(&self, users: Vec<U256>) -> Vec<B256> {
        users.into_iter().map(|user| self.newest.get(user)).collect()
    }

    pub fn counts(&self, user: U256) -> (U256, U256, U256) {
        (self.following.get(user), self.followers.get(user), self.posts.get(user))
    }
}

impl Retwis {
    /// Block time in Unix seconds, plus one: zero means that no time is stored.
    fn now(&self) -> U256 {
        U256::from(self.vm().block_timestamp()) + U256::ONE
    }
}

fn post_key(user: U256, number: U256) -> U256 {
    (user << 64) | number
}

#[cfg(test)]
mod tests {
    use super::*;
    use stylus_sdk::testing::*;

    fn user(number: u64) -> U256 {
        U256::from(number)
    }

    fn text(byte: u8) -> B256 {
        B256::repeat_byte(byte)
    }

    #[test]
    fn only_registered_users_post() {
        let vm = TestVM::default();
        let mut retwis = Retwis::from(&vm);
        assert!(retwis.add_user(user(1), text(1)).is_ok());
        assert!(matches!(retwis.add_user(user(1), text(1)), Err(RetwisError::UserExists(_))));
        assert!(matches!(retwis.post(user(2), text(2)), Err(RetwisError::NoSuchUser(_))));
    }

    #[test]
    fn timeline_shows_newest_posts() {
        let vm = TestVM::default();
        let mut retwis = Retwis::from(&vm);
        for number in [1, 2] {
            assert!(retwis.add_user(user(number), text(number as u8)).is_ok());
        }
        assert_eq!(retwis.post(user(1), text(8)).ok(), Some(user(0)));
        assert_eq!(retwis.post(user(1), text(9)).ok(), Some(user(1)));
        assert_eq!(retwis.timeline(vec![user(1), user(2), user(3)]), [text(9), text(2), B256::ZERO]);
        assert_eq!(retwis.counts(user(1)).2, user(2));
    }

    #[test]
    fn follow_updates_both_counters() {
        let vm = TestVM::default();
        let mut retwis = Retwis::from(&vm);
        retwis.follow(user(1), user(2));
        retwis.follow(user(3), user(2));
        assert_eq!(retwis.counts(user(1)), (user(1), user(0), user(0)));
        assert_eq!(retwis.counts(user(2)), (user(0), user(2), user(0)));
    }

    #[test]
    fn post_keys_are_distinct_per_user() {
        assert_ne!(post_key(user(1), user(0)), post_key(user(0), user(1)));
        assert_eq!(post_key(user(1), user(2)), (user(1) << 64) + user(2));
    }
}
