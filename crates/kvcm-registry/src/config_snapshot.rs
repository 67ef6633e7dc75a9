//! The whole registry as one JSON text, and back: what operators save before a change and bring to
//! another cluster. Passwords are not part of it.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Account, Error, Fields, Group, Instance, Mistakes, Registration, Registry, Role, Storage,
    group_read,
    instance::name_problem,
    operation::Operation,
    reader::{Notes, Reader},
    state::State,
    storage_read,
};

/// What the text says it is.
const FORMAT: &str = "kvcm-registry";
/// The version of the text. A program refuses a newer one.
const VERSION: u32 = 1;
/// Mistakes that an error names; the rest is counted.
const MISTAKES_MAX: usize = 20;

/// The text as it is written.
#[derive(Serialize)]
struct Written<'a> {
    format: &'static str,
    version: u32,
    storages: Vec<&'a Storage>,
    instance_groups: Vec<&'a Group>,
    instances: Vec<&'a Instance>,
    accounts: Vec<WrittenAccount<'a>>,
}

#[derive(Serialize)]
struct WrittenAccount<'a> {
    user_name: &'a str,
    role: Role,
}

/// What became of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotLoaded {
    /// Instances that are gone or have another description now: their blocks have to go.
    pub dropped: Vec<String>,
    /// Accounts that were not known and so have no password.
    pub without_password: Vec<String>,
}

impl Registry {
    /// The whole registry as JSON text: storages, groups, instances, and accounts without their
    /// passwords, each sorted by name.
    pub fn config_snapshot(&self) -> String {
        let state = self.state();
        let mut instances: Vec<&Instance> = state.instances.values().map(|i| &**i).collect();
        instances.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let accounts = state.accounts.values().map(|account| WrittenAccount {
            user_name: &account.user_name,
            role: account.role,
        });
        let written = Written {
            format: FORMAT,
            version: VERSION,
            storages: state.storages.values().map(|s| &**s).collect(),
            instance_groups: state.groups.values().map(|g| &**g).collect(),
            instances,
            accounts: accounts.collect(),
        };
        // Texts, numbers and booleans always have a JSON form.
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// The groups that such a text has: for a look before it is loaded.
    ///
    /// # Errors
    /// [`Error::BadSnapshot`] with every mistake in the text.
    pub fn groups_in_snapshot(text: &str) -> Result<Vec<Group>, Error> {
        let wanted = Wanted::read(text).map_err(Error::BadSnapshot)?;
        Ok(wanted.groups.into_values().collect())
    }

    /// Makes the registry what a [`config_snapshot`](Self::config_snapshot) says, in one step.
    /// Accounts keep their passwords; a text without accounts leaves them alone.
    ///
    /// # Errors
    /// [`Error::BadSnapshot`] with every mistake in the text, [`Error::Fenced`],
    /// [`Error::Unavailable`].
    pub async fn load_config_snapshot(&self, text: &str) -> Result<SnapshotLoaded, Error> {
        let wanted = Wanted::read(text).map_err(Error::BadSnapshot)?;
        let mut writes = self.begin().await?;
        let (operations, loaded) = wanted.changes(&self.state());
        self.commit(&mut writes, operations).await?;
        Ok(loaded)
    }
}

/// What a text wants the registry to be.
#[derive(Debug, Default)]
struct Wanted {
    storages: BTreeMap<String, Storage>,
    groups: BTreeMap<String, Group>,
    instances: BTreeMap<String, Instance>,
    accounts: Option<BTreeMap<String, Role>>,
}

impl Wanted {
    fn read(text: &str) -> Result<Self, Mistakes> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Mistakes(vec![format!("it is not JSON: {error}")]))?;
        let notes = RefCell::new(Notes::default());
        let wanted = Reader::read("", &value, &notes, Self::members).unwrap_or_default();
        let Notes { mistakes, warnings } = notes.into_inner();
        // A member that is not known may be a misspelt one, and the text is meant to be complete.
        let mut mistakes = [mistakes, warnings].concat();
        if mistakes.is_empty() {
            return Ok(wanted);
        }
        let count = mistakes.len();
        if count > MISTAKES_MAX {
            mistakes.truncate(MISTAKES_MAX);
            mistakes.push(format!("and {} more", count - MISTAKES_MAX));
        }
        Err(Mistakes(mistakes))
    }

    fn members(reader: &mut Reader<'_>) -> Self {
        let what = "it says that the text is a snapshot of a registry";
        reader.require("format", what);
        reader.require("version", "the version of the text");
        for list in ["storages", "instance_groups", "instances"] {
            reader.require(list, "an empty list removes all of them");
        }
        let format = reader.text("format", FORMAT);
        if format != FORMAT {
            reader.mistake(format!("`format` is `{format}`, expected `{FORMAT}`"));
        }
        let version = reader.int("version", VERSION);
        if version == 0 || version > VERSION {
            reader.mistake(format!(
                "`version` is {version}, this program reads up to {VERSION}"
            ));
        }
        let notes = reader.notes();
        let mut wanted = Self::default();
        for (place, item) in reader.list("storages") {
            let read = Reader::read(&place, item, notes, storage_read::storage);
            if let Some(storage) = read.flatten() {
                let problems = storage.problems(&format!("{place}."));
                note(notes, problems);
                put(
                    &mut wanted.storages,
                    &place,
                    storage.name.clone(),
                    storage,
                    notes,
                );
            }
        }
        for (place, item) in reader.list("instance_groups") {
            if let Some(group) = Reader::read(&place, item, notes, group_read::group) {
                note(notes, group.problems(&format!("{place}.")));
                put(&mut wanted.groups, &place, group.name.clone(), group, notes);
            }
        }
        for (place, item) in reader.list("instances") {
            if let Some(instance) = parse::<Instance>(&place, item, notes) {
                wanted.check_instance(&place, &instance, notes);
                put(
                    &mut wanted.instances,
                    &place,
                    instance.id.clone(),
                    instance,
                    notes,
                );
            }
        }
        if reader.raw("accounts").is_some() {
            let mut accounts = BTreeMap::new();
            for (place, item) in reader.list("accounts") {
                let read = Reader::read(&place, item, notes, |reader| {
                    (reader.text("user_name", ""), reader.raw("role"))
                });
                let Some((name, role)) = read else { continue };
                if let Some(reason) = name_problem(&name) {
                    mistake(notes, format!("`{place}.user_name` {reason}"));
                }
                let role = role.unwrap_or_default();
                if let Some(role) = parse::<Role>(&format!("{place}.role"), &role, notes) {
                    put(&mut accounts, &place, name, role, notes);
                }
            }
            wanted.accounts = Some(accounts);
        }
        wanted
    }

    /// An instance has to be one that could be registered.
    fn check_instance(&self, place: &str, instance: &Instance, notes: &RefCell<Notes>) {
        let registration = Registration {
            group: instance.group.clone(),
            id: instance.id.clone(),
            block_size: instance.block_size,
            location_spec_infos: instance.location_spec_infos.clone(),
            model_deployment: Some(instance.model_deployment.clone()),
            location_spec_groups: instance.location_spec_groups.clone(),
            default_query_type: instance.default_query_type,
        };
        if let Err(Error::InvalidArgument(fields)) = registration.validate() {
            for field in fields.0 {
                let text = format!("`{place}.{}` {}", field.field, field.reason);
                mistake(notes, text);
            }
        }
        if !self.groups.contains_key(&instance.group) {
            let group = &instance.group;
            mistake(
                notes,
                format!(
                    "`{place}.instance_group_name` is `{group}`, which is not among `instance_groups`"
                ),
            );
        }
    }

    /// The operations that make `state` what is wanted.
    fn changes(self, state: &State) -> (Vec<Operation>, SnapshotLoaded) {
        let mut operations = Vec::new();
        let mut loaded = SnapshotLoaded::default();
        if !state.initialised {
            operations.push(Operation::Initialised);
        }
        for name in gone(state.storages.keys(), &self.storages) {
            operations.push(Operation::RemoveStorage { name });
        }
        for storage in self.storages.into_values() {
            if is_other(state.storages.get(&storage.name), &storage) {
                operations.push(Operation::PutStorage { storage });
            }
        }
        for id in gone(state.instances.keys(), &self.instances) {
            loaded.dropped.push(id.clone());
            operations.push(Operation::RemoveInstance { id });
        }
        for name in gone(state.groups.keys(), &self.groups) {
            operations.push(Operation::RemoveGroup { name });
        }
        for group in self.groups.into_values() {
            if is_other(state.groups.get(&group.name), &group) {
                operations.push(Operation::PutGroup { group });
            }
        }
        for instance in self.instances.into_values() {
            let stored = state.instances.get(&instance.id);
            if is_other(stored, &instance) {
                if stored.is_some() {
                    loaded.dropped.push(instance.id.clone());
                }
                operations.push(Operation::PutInstance { instance });
            }
        }
        let Some(accounts) = self.accounts else {
            return (operations, loaded);
        };
        for user_name in gone(state.accounts.keys(), &accounts) {
            operations.push(Operation::RemoveAccount { user_name });
        }
        for (user_name, role) in accounts {
            let stored = state.accounts.get(&user_name);
            let account = Account {
                password: stored.and_then(|stored| stored.password.clone()),
                user_name,
                role,
            };
            if account.password.is_none() {
                loaded.without_password.push(account.user_name.clone());
            }
            if is_other(stored, &account) {
                operations.push(Operation::PutAccount { account });
            }
        }
        (operations, loaded)
    }
}

/// Names that are there and not wanted, sorted.
fn gone<'a, V>(
    there: impl Iterator<Item = &'a String>,
    wanted: &BTreeMap<String, V>,
) -> BTreeSet<String> {
    let gone = there.filter(|name| !wanted.contains_key(*name));
    gone.cloned().collect()
}

fn is_other<T: PartialEq>(stored: Option<&Arc<T>>, wanted: &T) -> bool {
    stored.is_none_or(|stored| **stored != *wanted)
}

fn put<T>(
    map: &mut BTreeMap<String, T>,
    place: &str,
    name: String,
    value: T,
    notes: &RefCell<Notes>,
) {
    if map.contains_key(&name) {
        mistake(notes, format!("`{place}` repeats `{name}`"));
    }
    map.insert(name, value);
}

fn parse<T: DeserializeOwned>(place: &str, value: &Value, notes: &RefCell<Notes>) -> Option<T> {
    match T::deserialize(value) {
        Ok(value) => Some(value),
        Err(error) => {
            mistake(notes, format!("`{place}`: {error}"));
            None
        }
    }
}

fn note(notes: &RefCell<Notes>, problems: Fields) {
    for problem in problems.0 {
        mistake(notes, format!("`{}` {}", problem.field, problem.reason));
    }
}

fn mistake(notes: &RefCell<Notes>, text: String) {
    notes.borrow_mut().mistakes.push(text);
}
