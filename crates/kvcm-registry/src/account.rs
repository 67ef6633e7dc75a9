//! Accounts: who may call what, once access is switched on.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Error, Fields, PasswordHash, Registry, instance::name_problem, operation::Operation};

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its name, 1 to 256 bytes without control characters.
    pub user_name: String,
    /// What it may do.
    pub role: Role,
    /// None: nobody can log in, because a configuration snapshot, which holds no passwords,
    /// brought the account along. Adding it again gives it a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<PasswordHash>,
}

/// What an account may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What inference engines need.
    #[default]
    User,
    /// Everything.
    Admin,
}

// === impl Role ===

impl Role {
    /// The number of the protocol's AccountRole.
    pub const fn number(self) -> i32 {
        match self {
            Self::User => 0,
            Self::Admin => 1,
        }
    }

    /// The role with this number on the wire.
    pub const fn from_number(number: i32) -> Option<Self> {
        match number {
            0 => Some(Self::User),
            1 => Some(Self::Admin),
            _ => None,
        }
    }
}

// === impl Registry ===

impl Registry {
    /// Adds an account. One that has no password yet takes this one.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], [`Error::Exists`], [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn add_account(&self, account: Account) -> Result<(), Error> {
        let mut fields = Fields::default();
        if let Some(reason) = name_problem(&account.user_name) {
            fields.add("user_name", reason);
        }
        fields.into_result()?;
        let mut writes = self.begin().await?;
        let stored = self.account(&account.user_name);
        if stored.is_some_and(|stored| stored.password.is_some()) {
            return Err(Error::Exists {
                what: "account",
                name: account.user_name,
            });
        }
        self.commit(&mut writes, vec![Operation::PutAccount { account }])
            .await
    }

    /// Deletes an account.
    ///
    /// # Errors
    /// [`Error::NoSuchAccount`], [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn delete_account(&self, user_name: &str) -> Result<(), Error> {
        let mut writes = self.begin().await?;
        let stored = self.account(user_name);
        let stored: Arc<Account> =
            stored.ok_or_else(|| Error::NoSuchAccount(user_name.to_owned()))?;
        let user_name = stored.user_name.clone();
        self.commit(&mut writes, vec![Operation::RemoveAccount { user_name }])
            .await
    }
}
