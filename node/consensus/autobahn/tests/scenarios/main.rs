//! Whole engines on a virtual network, one scenario a file.

mod backlog;
mod cluster;
mod delays;
mod forks;
mod history;
mod lanes_alone;
mod lost_disk;
mod order;
mod pipelined;
mod rations;
mod real_crypto;
mod trace;
mod withheld;
