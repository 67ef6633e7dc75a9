//! Whether this contender leads, by its own clock.

use std::sync::Arc;

use kvcm_clock::{BootClock, Clock, Moment};
use parking_lot::Mutex;

/// Shared by the campaign, which sets it, and by those that take writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Lead(Arc<Mutex<Option<(String, Moment)>>>);

impl Lead {
    /// Leads from now on, until `end` unless that is put off. The token names this leadership.
    pub(super) fn begin(&self, token: &str, end: Moment) {
        *self.0.lock() = Some((token.to_owned(), end));
    }

    /// The lease was renewed, if there is one.
    pub(super) fn put_off(&self, new_end: Moment) {
        if let Some((_, end)) = &mut *self.0.lock() {
            *end = new_end;
        }
    }

    /// Leads no more.
    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }

    /// The leadership, while its lease lives.
    pub(super) fn token(&self) -> Option<String> {
        let lead = self.0.lock();
        let (token, end) = lead.as_ref()?;
        (BootClock.now() < *end).then(|| token.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_could_not_renew_does_not_lead() {
        let lead = Lead::default();
        let hour = Duration::from_secs(3600);
        lead.put_off(BootClock.now() + hour);
        assert_eq!(lead.token(), None);
        lead.begin("a", BootClock.now());
        assert_eq!(lead.token(), None);
        lead.put_off(BootClock.now() + hour);
        assert_eq!(lead.token().as_deref(), Some("a"));
        lead.end();
        assert_eq!(lead.token(), None);
    }
}
