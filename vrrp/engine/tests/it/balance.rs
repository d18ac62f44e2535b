//! Where what comes for a VIP goes, and that the table that sends it there stays.

mod kept;
mod local;
mod moves;
mod scene;
mod spread;
mod table;
