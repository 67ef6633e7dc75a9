//! Bearer tokens of the configuration.

use kvcm_registry::Role;

use super::{Fingerprint, Secret};
use crate::config::AccessSettings;

/// The tokens that are accepted, as keyed hashes.
#[derive(Debug)]
pub(crate) struct Tokens(Vec<(Fingerprint, Role)>);

impl Tokens {
    /// The tokens of the configuration.
    pub(crate) fn new(settings: &AccessSettings, secret: &Secret) -> Self {
        let admin = settings.admin_tokens.iter().map(|t| (t, Role::Admin));
        let meta = settings.meta_tokens.iter().map(|t| (t, Role::User));
        let all = admin.chain(meta);
        Self(
            all.map(|(token, role)| (secret.fingerprint(&[token.reveal()]), role))
                .collect(),
        )
    }

    /// What the bearer of `token` may do; none when it is no token of ours.
    pub(crate) fn role(&self, token: &str, secret: &Secret) -> Option<Role> {
        let shown = secret.fingerprint(&[token]);
        let found = self.0.iter().find(|(token, _)| *token == shown);
        found.map(|(_, role)| *role)
    }
}
