//! Adverts as bytes.
