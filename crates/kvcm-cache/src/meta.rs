//! The state of single keys.

use kvcm_index::{Location, State};

use crate::{
    CacheManager, LocationId, MetaRequest, Result, View, manager::require, view::SpecFilter,
};

/// What GetCacheMeta tells of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaState {
    /// The request masked it.
    Masked,
    /// There is no location.
    NotFound,
    /// Its first location that stays is being written.
    Writing,
    /// Its first location that stays may be read.
    Serving,
    /// All its locations are on their way out.
    Deleting,
}

impl MetaState {
    /// The protocol's text. A masked key reads as one that was not found.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Masked | Self::NotFound => "CLS_NOT_FOUND",
            Self::Writing => "CLS_WRITING",
            Self::Serving => "CLS_SERVING",
            Self::Deleting => "CLS_DELETING",
        }
    }
}

/// The answer for one key.
#[derive(Clone, Copy, Debug)]
pub struct Meta<'a> {
    /// What state the key is in.
    pub state: MetaState,
    /// The name of that location.
    pub id: Option<LocationId>,
    /// That location, or a placeholder.
    pub view: View<'a>,
}

impl Meta<'_> {
    /// The protocol's JSON text: `{"id":"…","status":"…"}`.
    pub fn to_json(&self) -> String {
        let id = self.id.as_ref().map_or("", LocationId::as_str);
        let status = self.state.as_str();
        // Both are plain ASCII without quotes.
        format!("{{\"id\":\"{id}\",\"status\":\"{status}\"}}")
    }
}

impl CacheManager {
    /// Shows one answer per requested key, in order. Masked keys keep their place, as
    /// [`MetaState::Masked`] placeholders: the protocol promises answers one to one, and a caller
    /// could not tell otherwise which answer is whose. Not a use of the keys.
    ///
    /// # Errors
    /// [`MissingFields`](crate::Error::MissingFields), a bad mask or too many keys,
    /// [`InstanceNotExist`](crate::Error::InstanceNotExist).
    pub fn meta(&self, request: &MetaRequest<'_>, mut show: impl FnMut(&Meta<'_>)) -> Result<()> {
        require(&[("instance_id", !request.instance_id.is_empty())])?;
        request.mask.check("block_mask")?;
        let home = self.home(request.instance_id)?;
        let keys = self.keys(&home, request.blocks)?;
        let mut firsts: Vec<Option<Location>> = Vec::with_capacity(keys.len());
        home.index.inspect(keys.iter().copied(), |_, locations| {
            let stored = locations.iter().filter(|l| l.state() != State::Reserved);
            // A key that is being deleted may have been written again since.
            firsts.push(stored.min_by_key(|l| l.state() == State::Deleting).copied());
        });
        let named = home.named(&self.shared.storages.list());
        for (at, (key, first)) in keys.iter().zip(firsts).enumerate() {
            let masked = request.mask.contains(at);
            let first = first.filter(|_| !masked);
            let found = first.and_then(|l| Some((l, &**named.get(l.storage())?)));
            let view = View::new(&home, &SpecFilter::All, *key, found);
            let state = match found.map(|(location, _)| location.state()) {
                None if masked => MetaState::Masked,
                None | Some(State::Reserved) => MetaState::NotFound,
                Some(State::Writing) => MetaState::Writing,
                Some(State::Serving) => MetaState::Serving,
                Some(State::Deleting) => MetaState::Deleting,
            };
            show(&Meta {
                state,
                id: view.id(),
                view,
            });
        }
        Ok(())
    }
}
