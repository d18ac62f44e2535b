//! What the lab promises, and what Windlass does in it.

mod light;
mod teardown;
