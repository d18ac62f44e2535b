//! IP address ranges and an allocator that never walks them; pure, no I/O.
