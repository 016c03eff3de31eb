//! The slots alone: several machines on lock-step links, with modelled lanes and modelled keys.

mod delays;
mod keys;
mod net;
mod paths;
