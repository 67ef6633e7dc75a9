//! Changes that operators make: storages and groups. Each is checked whole before anything is
//! written, and written in one batch.

use std::sync::Arc;

use crate::{Error, Group, Instance, Registry, Storage, operation::Operation};

impl Registry {
    /// Adds a storage.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], [`Error::Exists`], [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn add_storage(&self, storage: Storage) -> Result<(), Error> {
        storage.problems("").into_result()?;
        let mut writes = self.begin().await?;
        if self.storage(&storage.name).is_some() {
            return Err(Error::Exists {
                what: "storage",
                name: storage.name,
            });
        }
        self.commit(&mut writes, vec![Operation::PutStorage { storage }])
            .await
    }

    /// Replaces a storage. Whether it is enabled stays as it was.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], [`Error::NoSuchStorage`], [`Error::Fenced`],
    /// [`Error::Unavailable`].
    pub async fn update_storage(&self, mut storage: Storage) -> Result<(), Error> {
        storage.problems("").into_result()?;
        let mut writes = self.begin().await?;
        storage.is_available = self.existing_storage(&storage.name)?.is_available;
        self.commit(&mut writes, vec![Operation::PutStorage { storage }])
            .await
    }

    /// Enables or disables a storage for new blocks.
    ///
    /// # Errors
    /// [`Error::NoSuchStorage`], [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn set_storage_available(&self, name: &str, available: bool) -> Result<(), Error> {
        let mut writes = self.begin().await?;
        let mut storage = (*self.existing_storage(name)?).clone();
        let mut operations = Vec::new();
        if storage.is_available != available {
            storage.is_available = available;
            operations.push(Operation::PutStorage { storage });
        }
        self.commit(&mut writes, operations).await
    }

    /// Removes a storage, also one that groups name.
    ///
    /// # Errors
    /// [`Error::NoSuchStorage`], [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn remove_storage(&self, name: &str) -> Result<(), Error> {
        let mut writes = self.begin().await?;
        let name = self.existing_storage(name)?.name.clone();
        self.commit(&mut writes, vec![Operation::RemoveStorage { name }])
            .await
    }

    /// Creates a group. Its candidates need not exist yet.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], [`Error::Exists`], [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn create_group(&self, group: Group) -> Result<(), Error> {
        group.problems("").into_result()?;
        let mut writes = self.begin().await?;
        if self.group(&group.name).is_some() {
            return Err(Error::Exists {
                what: "instance group",
                name: group.name,
            });
        }
        self.commit(&mut writes, vec![Operation::PutGroup { group }])
            .await
    }

    /// Replaces a group whose version is `current`; the new version has to be larger.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], [`Error::NoSuchGroup`], [`Error::VersionConflict`],
    /// [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn update_group(&self, current: i64, group: Group) -> Result<(), Error> {
        group.problems("").into_result()?;
        let mut writes = self.begin().await?;
        let stored = self.existing_group(&group.name)?.version;
        if stored != current || group.version <= stored {
            return Err(Error::VersionConflict {
                stored,
                current,
                new: group.version,
                group: group.name,
            });
        }
        self.commit(&mut writes, vec![Operation::PutGroup { group }])
            .await
    }

    /// Removes a group and, in the same step, its instances, which it gives back so that their
    /// blocks can go too.
    ///
    /// # Errors
    /// [`Error::NoSuchGroup`], [`Error::Fenced`], [`Error::Unavailable`].
    pub async fn remove_group(&self, name: &str) -> Result<Vec<Arc<Instance>>, Error> {
        let mut writes = self.begin().await?;
        let name = self.existing_group(name)?.name.clone();
        let instances = self.instances_of(&name);
        let mut operations: Vec<_> = instances
            .iter()
            .map(|instance| Operation::RemoveInstance {
                id: instance.id.clone(),
            })
            .collect();
        operations.push(Operation::RemoveGroup { name });
        self.commit(&mut writes, operations).await?;
        Ok(instances)
    }
}
