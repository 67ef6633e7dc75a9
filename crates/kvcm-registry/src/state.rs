//! What the registry knows.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use kvcm_clock::Moment;
use kvcm_journal::Requests;

use crate::{Account, Group, Instance, Storage, operation::Operation};

/// Requests that are remembered: one a second for more than two hours, thirteen a second for ten
/// minutes.
const REQUESTS_MAX: usize = 8192;

/// The state after some operations. Applying is total: what is said twice or about nothing changes
/// nothing.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) initialised: bool,
    pub(crate) storages: BTreeMap<String, Arc<Storage>>,
    pub(crate) groups: BTreeMap<String, Arc<Group>>,
    pub(crate) instances: HashMap<String, Arc<Instance>>,
    pub(crate) accounts: BTreeMap<String, Arc<Account>>,
    /// Requests of clients that have changed something.
    pub(crate) requests: Requests<()>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            initialised: false,
            storages: BTreeMap::new(),
            groups: BTreeMap::new(),
            instances: HashMap::new(),
            accounts: BTreeMap::new(),
            // There are few enough of them that none needs to go for its age.
            requests: Requests::new(Duration::MAX, REQUESTS_MAX),
        }
    }
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
            Operation::Request(request) => {
                self.requests.note(request.into(), (), Moment::ZERO);
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
        let requests = self.requests.iter();
        let requests = requests.map(|(request, ())| Operation::Request(request.into()));
        let all = marker.into_iter().chain(storages).chain(groups);
        all.chain(instances)
            .chain(accounts)
            .chain(requests)
            .collect()
    }
}
