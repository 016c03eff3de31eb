//! Features of the SDK without a library: storage of all kinds, calls, creations, transient storage, events, errors.
#![cfg_attr(not(any(test, feature = "export-abi")), no_main)]

extern crate alloc;

use alloc::{string::String, vec::Vec};
use alloy_primitives::{aliases::I64, Address, B256, U128, U256, U64, U8};
use alloy_sol_types::sol;
use stylus_sdk::{abi::Bytes, call::RawCall, deploy::RawDeploy, prelude::*};

sol! {
    event Told(address indexed who, uint256 indexed number, string text);

    error Refused(uint256 number, address who);
    error CalleeFailed(bytes data);
}

#[derive(SolidityError)]
pub enum ProbeError {
    Refused(Refused),
    CalleeFailed(CalleeFailed),
}

// Host functions that the SDK does not declare.
#[link(wasm_import_module = "vm_hooks")]
extern "C" {
    fn transient_load_bytes32(key: *const u8, destination: *mut u8);
    fn transient_store_bytes32(key: *const u8, value: *const u8);
}

sol_storage! {
    #[entrypoint]
    pub struct Probe {
        uint256 number;
        int64 signed;
        uint8 small;
        bool flag;
        address owner;
        bytes32 word;
        string text;
        bytes data;
        uint64[] list;
        mapping(address => mapping(uint256 => uint128)) table;
    }
}

#[public]
impl Probe {
    #[constructor]
    #[payable]
    pub fn constructor(&mut self, number: U256) -> Result<(), ProbeError> {
        if number == U256::from(13) {
            return self.refuse(number);
        }
        self.number.set(number);
        let creator = self.vm().msg_sender();
        self.owner.set(creator);
        Ok(())
    }

    // ---- storage ----

    pub fn set_scalars(&mut self, number: U256, signed: i64, small: u8, flag: bool, owner: Address, word: B256) {
        self.number.set(number);
        self.signed.set(I64::try_from(signed).unwrap_or_default());
        self.small.set(U8::from(small));
        self.flag.set(flag);
        self.owner.set(owner);
        self.word.set(word);
    }

    pub fn scalars(&self) -> (U256, i64, u8, bool, Address, B256) {
        let (signed, small) = (self.signed.get().as_i64(), self.small.get().to::<u8>());
        (self.number.get(), signed, small, self.flag.get(), self.owner.get(), self.word.get())
    }

    pub fn set_texts(&mut self, text: String, data: Bytes) {
        self.text.set_str(text);
        self.data.set_bytes(&*data);
    }

    pub fn text(&self) -> String {
        self.text.get_string()
    }

    pub fn data(&self) -> Bytes {
        self.data.get_bytes().into()
    }

    pub fn push(&mut self, value: u64) {
        self.list.push(U64::from(value));
    }

    pub fn pop(&mut self) -> u64 {
        self.list.pop().map_or(0, |value| value.to())
    }

    pub fn list(&self) -> Vec<u64> {
        (0..self.list.len()).filter_map(|at| self.list.get(at)).map(|value| value.to()).collect()
    }

    pub fn put(&mut self, who: Address, at: U256, value: u128) {
        self.table.setter(who).setter(at).set(U128::from(value));
    }

    pub fn at(&self, who: Address, at: U256) -> u128 {
        self.table.getter(who).get(at).to()
    }

    pub fn transient_store(&mut self, key: B256, value: B256) {
        // SAFETY: both point to 32 bytes.
        unsafe { transient_store_bytes32(key.as_ptr(), value.as_ptr()) }
    }

    pub fn transient_load(&self, key: B256) -> B256 {
        let mut value = B256::ZERO;
        // SAFETY: both point to 32 bytes.
        unsafe { transient_load_bytes32(key.as_ptr(), value.as_mut_ptr()) }
        value
    }

    // ---- calls and creations ----

    #[payable]
    pub fn call_other(&mut self, to: Address, data: Bytes) -> Result<Bytes, ProbeError> {
        let value = self.vm().msg_value();
        // SAFETY: nothing of the storage is borrowed, and the cache is written and cleared first.
        answer(unsafe { RawCall::new_with_value(self.vm(), value).clear_storage_cache().call(to, &data) })
    }

    pub fn static_call_other(&self, to: Address, data: Bytes) -> Result<Bytes, ProbeError> {
        // SAFETY: as above.
        answer(unsafe { RawCall::new_static(self.vm()).clear_storage_cache().call(to, &data) })
    }

    pub fn delegate_call_other(&mut self, to: Address, data: Bytes) -> Result<Bytes, ProbeError> {
        // SAFETY: as above.
        answer(unsafe { RawCall::new_delegate(self.vm()).clear_storage_cache().call(to, &data) })
    }

    #[payable]
    pub fn create(&mut self, code: Bytes) -> Result<Address, ProbeError> {
        let value = self.vm().msg_value();
        // SAFETY: as above.
        created(unsafe { RawDeploy::new().deploy(self.vm(), &code, value) })
    }

    #[payable]
    pub fn create2(&mut self, code: Bytes, salt: B256) -> Result<Address, ProbeError> {
        let value = self.vm().msg_value();
        // SAFETY: as above.
        created(unsafe { RawDeploy::new().salt(salt).deploy(self.vm(), &code, value) })
    }

    // ---- events and errors ----

    pub fn tell(&mut self, text: String) {
        let who = self.vm().msg_sender();
        let number = self.number.get();
        self.vm().log(Told { who, number, text });
    }

    pub fn tell_raw(&self, topics: Vec<B256>, data: Bytes) {
        let _ = self.vm().raw_log(&topics, &data);
    }

    pub fn refuse(&self, number: U256) -> Result<(), ProbeError> {
        Err(ProbeError::Refused(Refused { number, who: self.vm().msg_sender() }))
    }

    pub fn panic(&self) {
        panic!("at the disco")
    }

    // ---- environment ----

    /// Chain id, height, time, sender, origin, own address.
    pub fn place(&self) -> (U256, U256, U256, Address, Address, Address) {
        let vm = self.vm();
        let numbers = [vm.chain_id(), vm.block_number(), vm.block_timestamp()].map(U256::from);
        (numbers[0], numbers[1], numbers[2], vm.msg_sender(), vm.tx_origin(), vm.contract_address())
    }

    /// Balance, size of the code, code hash.
    pub fn account(&self, of: Address) -> (U256, U256, B256) {
        let vm = self.vm();
        (vm.balance(of), U256::from(vm.code_size(of)), vm.code_hash(of))
    }

    pub fn hash(&self, data: Bytes) -> B256 {
        self.vm().native_keccak256(&data)
    }

    #[receive]
    #[payable]
    pub fn receive(&mut self) -> Result<(), Vec<u8>> {
        Ok(())
    }
}

fn answer(result: Result<Vec<u8>, Vec<u8>>) -> Result<Bytes, ProbeError> {
    result.map(Into::into).map_err(|data| ProbeError::CalleeFailed(CalleeFailed { data: data.into() }))
}

fn created(result: Result<Address, Vec<u8>>) -> Result<Address, ProbeError> {
    result.map_err(|data| ProbeError::CalleeFailed(CalleeFailed { data: data.into() }))
}
