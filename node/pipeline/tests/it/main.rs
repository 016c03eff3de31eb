//! Parts of the pipeline, each on its own. One program, because each links the pipeline and takes long to build.

mod block_building;
mod bounds;
#[path = "../common/mod.rs"]
mod common;
mod driver;
mod following;
mod halves;
mod upgrade;
mod weak_certificates;
