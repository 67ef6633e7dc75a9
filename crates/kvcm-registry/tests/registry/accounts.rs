//! Accounts.

use kvcm_registry::{Account, ErrorKind, PasswordHash, Role};

use crate::common::{initialised, open};

fn account(name: &str, role: Role, password: &str) -> Account {
    Account {
        user_name: name.to_owned(),
        role,
        password: Some(PasswordHash::of(password).unwrap()),
    }
}

#[tokio::test]
async fn accounts_survive_and_their_passwords_are_nowhere_in_clear() {
    let (journal, registry) = initialised().await;
    let added = registry.add_account(account("ops", Role::Admin, "s3cret-text"));
    added.await.unwrap();
    let (registry, recovery) = open(&journal, 2).await;
    assert!(recovery.skipped.is_empty());
    let stored = registry.account("ops").unwrap();
    assert_eq!(stored.role, Role::Admin);
    assert!(stored.password.as_ref().unwrap().matches("s3cret-text"));
    let shown = format!("{stored:?}");
    assert!(
        !shown.contains("argon2") && !shown.contains("s3cret"),
        "{shown}"
    );
}

#[tokio::test]
async fn an_account_is_added_once_and_deleted_once() {
    let (_journal, registry) = initialised().await;
    let first = account("a", Role::User, "one");
    registry.add_account(first.clone()).await.unwrap();
    let again = registry.add_account(account("a", Role::Admin, "two")).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Duplicate);
    assert_eq!(*registry.account("a").unwrap(), first);
    registry.delete_account("a").await.unwrap();
    assert!(registry.accounts().is_empty());
    let again = registry.delete_account("a").await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::NoSuchAccount);
}

#[tokio::test]
async fn an_account_without_a_name_is_refused() {
    let (_journal, registry) = initialised().await;
    let error = registry.add_account(account("", Role::User, "x")).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("{user_name}"), "{error}");
}
