//! NeoBFT.
