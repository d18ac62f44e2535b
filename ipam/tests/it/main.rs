//! Tests of what is written about the library.

mod documents;
