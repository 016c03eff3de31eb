//! Whole engines on a virtual network, one scenario per file.

mod accuser;
mod backlog;
mod clocks;
mod cluster;
mod dead;
mod delays;
mod fixtures;
mod floods;
mod forks;
mod history;
mod idle;
mod lanes_alone;
mod lost_disk;
mod memory;
mod order;
mod pipelined;
mod rate_limits;
mod real_crypto;
mod scripted;
mod trace;
mod unsolicited;
mod withheld;
