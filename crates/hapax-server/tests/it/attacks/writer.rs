//! A writer: holds a token that may write and nothing more.
