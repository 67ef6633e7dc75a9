//! What a child tells.

use std::{fmt, str::FromStr};

use coordination_core::ReignEnd;

/// What begins a line of ours: a test harness talks, too.
const MARK: &str = "@";

/// One fact, as a child knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The life that tells it.
    pub(super) incarnation: String,
    /// When the call that it tells of was sent; the same as `at` where there is none.
    pub(super) since: u64,
    /// When it was known, in nanoseconds of the boot clock.
    pub(super) at: u64,
    pub(super) what: What,
    /// Of the reign that it tells of, or 0.
    pub(super) epoch: u64,
}

/// The kind of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum What {
    /// It wants the lock from now on.
    Campaigns,
    /// It has the lock, and there was no reign before.
    First,
    /// It has the lock after a reign that ended so.
    Acquired(End),
    /// It has learned again of an acquisition whose answer it may have lost.
    Repeated,
    /// Its own lease had not ended at that moment.
    Serves,
    /// It sends a renewal.
    Renews,
    Renewed,
    /// It gives the lock up and does not serve from now on.
    Releases,
    Released,
    /// It found that it has the lock no more, by its own clock or by an answer.
    Lost,
    /// A call has failed.
    Failed,
}

/// How the reign before ended, as the backend tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum End {
    Released,
    Expired,
    Dead,
    Unknown,
}

impl From<ReignEnd> for End {
    fn from(end: ReignEnd) -> Self {
        match end {
            ReignEnd::Released => Self::Released,
            ReignEnd::Expired => Self::Expired,
            ReignEnd::Dead => Self::Dead,
            ReignEnd::Unknown => Self::Unknown,
        }
    }
}

impl What {
    const ALL: [(Self, &str); 14] = [
        (Self::Campaigns, "campaigns"),
        (Self::First, "first"),
        (Self::Acquired(End::Released), "acquired-released"),
        (Self::Acquired(End::Expired), "acquired-expired"),
        (Self::Acquired(End::Dead), "acquired-dead"),
        (Self::Acquired(End::Unknown), "acquired-unknown"),
        (Self::Repeated, "repeated"),
        (Self::Serves, "serves"),
        (Self::Renews, "renews"),
        (Self::Renewed, "renewed"),
        (Self::Releases, "releases"),
        (Self::Released, "released"),
        (Self::Lost, "lost"),
        (Self::Failed, "failed"),
    ];

    /// Whether it tells that the lock was had.
    pub(super) fn is_acquisition(self) -> bool {
        matches!(self, Self::First | Self::Acquired(_) | Self::Repeated)
    }

    /// What a process whose last word this was is doing.
    pub(super) fn phase(self) -> &'static str {
        match self {
            Self::Campaigns => "campaigning",
            Self::First | Self::Acquired(_) | Self::Repeated | Self::Serves | Self::Renewed => {
                "holding"
            }
            Self::Renews => "renewing",
            Self::Releases => "releasing",
            Self::Released | Self::Lost | Self::Failed => "between",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(what, _)| what == self);
        f.write_str(name.map_or("unnamed", |(_, name)| name))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            incarnation,
            since,
            at,
            what,
            epoch,
        } = self;
        write!(f, "{MARK}{incarnation} {since} {at} {what} {epoch}")
    }
}

impl FromStr for Event {
    type Err = ();

    /// Reads a line; one that is not ours, or was cut off, is an error.
    fn from_str(line: &str) -> Result<Self, ()> {
        let fields: Vec<_> = line.strip_prefix(MARK).ok_or(())?.split(' ').collect();
        let [incarnation, since, at, what, epoch] = fields[..] else {
            return Err(());
        };
        let what = What::ALL.iter().find(|(_, name)| *name == what);
        Ok(Self {
            incarnation: incarnation.to_owned(),
            since: since.parse().map_err(drop)?,
            at: at.parse().map_err(drop)?,
            what: what.ok_or(())?.0,
            epoch: epoch.parse().map_err(drop)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_is_read_as_it_was_told() {
        for (what, _) in What::ALL {
            let event = Event {
                incarnation: "1f".to_owned(),
                since: 1,
                at: u64::MAX,
                what,
                epoch: 7,
            };
            assert_eq!(event.to_string().parse(), Ok(event));
        }
        for line in ["test child ... ok", "@", "@1f 1 2 serves", "@1f 1 2 x 3"] {
            assert_eq!(line.parse::<Event>(), Err(()), "{line}");
        }
    }
}
