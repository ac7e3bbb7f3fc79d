//! A stranger: anyone who can open a connection and holds no token.
