//! What the registry knows.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{Account, Group, Instance, Storage, operation::Operation};

/// The state after some operations. Applying is total: what is said twice or about nothing changes
/// nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) initialised: bool,
    pub(crate) storages: BTreeMap<String, Arc<Storage>>,
    pub(crate) groups: BTreeMap<String, Arc<Group>>,
    pub(crate) instances: HashMap<String, Arc<Instance>>,
    pub(crate) accounts: BTreeMap<String, Arc<Account>>,
}

impl State {
    pub(crate) fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Initialised => self.initialised = true,
            Operation::PutStorage { storage } => {
                let storages = &mut self.storages;
                storages.insert(storage.name.clone(), Arc::new(storage));
            }
            Operation::RemoveStorage { name } => {
                self.storages.remove(&name);
            }
            Operation::PutGroup { group } => {
                self.groups.insert(group.name.clone(), Arc::new(group));
            }
            Operation::RemoveGroup { name } => {
                self.groups.remove(&name);
            }
            Operation::PutInstance { instance } => {
                let instances = &mut self.instances;
                instances.insert(instance.id.clone(), Arc::new(instance));
            }
            Operation::RemoveInstance { id } => {
                self.instances.remove(&id);
            }
            Operation::PutAccount { account } => {
                let accounts = &mut self.accounts;
                accounts.insert(account.user_name.clone(), Arc::new(account));
            }
            Operation::RemoveAccount { user_name } => {
                self.accounts.remove(&user_name);
            }
        }
    }

    /// The operations that make this state out of nothing.
    pub(crate) fn operations(&self) -> Vec<Operation> {
        let marker = self.initialised.then_some(Operation::Initialised);
        let storages = self.storages.values().map(|s| Operation::PutStorage {
            storage: (**s).clone(),
        });
        let groups = self.groups.values().map(|g| Operation::PutGroup {
            group: (**g).clone(),
        });
        let instances = self.instances.values().map(|i| Operation::PutInstance {
            instance: (**i).clone(),
        });
        let accounts = self.accounts.values().map(|a| Operation::PutAccount {
            account: (**a).clone(),
        });
        let all = marker.into_iter().chain(storages).chain(groups);
        all.chain(instances).chain(accounts).collect()
    }
}
