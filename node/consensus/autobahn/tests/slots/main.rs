//! The slots alone: several machines on lock-step links, with modelled lanes and modelled keys.

mod byzantine;
mod copies;
mod delays;
mod leaders;
mod net;
mod paths;
mod recovery;
mod schedules;
mod scripted;
mod tips;
mod view_change;
mod weighted;
