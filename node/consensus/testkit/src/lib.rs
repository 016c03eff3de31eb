//! What tests of ordering engines share: virtual time, links, disks, faults, and the suite that every engine must pass.
