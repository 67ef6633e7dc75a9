//! Who may call what: bearer tokens from the configuration, accounts of the registry by name and
//! password.
//!
//! [`Guard::protect`] puts the check before the routes of a port, the same for gRPC and HTTP. A
//! token is compared, and a verified password remembered, only as its keyed hash ([`Secret`]):
//! neither the comparison's time nor a dump of the process tells one. Passwords are verified with
//! argon2 away from the threads that serve, few at a time ([`Passwords`]).

mod credentials;
mod denied;
mod guard;
mod need;
mod passwords;
mod secret;
mod tokens;

pub(crate) use self::{
    credentials::Credentials,
    denied::Denied,
    guard::{Accounts, Found, Guard, Unverified},
    need::{Need, Scope},
    passwords::Passwords,
    secret::{Fingerprint, Secret},
    tokens::Tokens,
};

#[cfg(test)]
mod tests;
