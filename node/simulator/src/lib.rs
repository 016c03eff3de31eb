//! Whole networks in virtual time: pipelines on simulated links and disks, one thread, one seed.
