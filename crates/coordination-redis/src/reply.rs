//! Reading what the scripts answer: lists of texts, the first of which says what follows.

use std::{fmt::Display, str::FromStr, time::Duration};

use coordination_core::{
    Acquired, DeleteOutcome, Error, Holder, LockOutcome, Owner, Previous, ReignEnd, RenewOutcome,
    Reserved, SetOutcome, UnlockOutcome, Value,
};
use kvcm_fence::Incarnation;

/// An answer that is read from front to back.
#[derive(Debug)]
pub(crate) struct Reply {
    texts: std::vec::IntoIter<String>,
}

impl Reply {
    pub(crate) fn new(texts: Vec<String>) -> Self {
        let texts = texts.into_iter();
        Self { texts }
    }

    pub(crate) fn lock_outcome(mut self) -> Result<LockOutcome, Error> {
        match self.text("kind")?.as_str() {
            "acquired" => Ok(LockOutcome::Acquired(self.acquired()?)),
            "held" => Ok(LockOutcome::Held(self.holder()?)),
            "reserved" => Ok(LockOutcome::Reserved(Reserved {
                node: self.parsed("reserved node")?,
                remaining: self.milliseconds("reserved time")?,
                epoch: self.parsed("epoch")?,
            })),
            kind => Err(unexpected("kind", kind)),
        }
    }

    pub(crate) fn renew_outcome(mut self) -> Result<RenewOutcome, Error> {
        match self.text("kind")?.as_str() {
            "renewed" => Ok(RenewOutcome::Renewed),
            "not_held" => Ok(RenewOutcome::NotHeld),
            "held" => Ok(RenewOutcome::HeldByOther(self.holder()?)),
            kind => Err(unexpected("kind", kind)),
        }
    }

    pub(crate) fn unlock_outcome(mut self) -> Result<UnlockOutcome, Error> {
        match self.text("kind")?.as_str() {
            "unlocked" => Ok(UnlockOutcome::Unlocked),
            "not_held" => Ok(UnlockOutcome::NotHeld),
            "held" => Ok(UnlockOutcome::HeldByOther(self.holder()?)),
            kind => Err(unexpected("kind", kind)),
        }
    }

    pub(crate) fn lock_holder(mut self) -> Result<Option<Holder>, Error> {
        match self.text("kind")?.as_str() {
            "free" => Ok(None),
            "held" => Ok(Some(self.holder()?)),
            kind => Err(unexpected("kind", kind)),
        }
    }

    pub(crate) fn set_outcome(mut self) -> Result<SetOutcome, Error> {
        match self.text("kind")?.as_str() {
            "stored" => Ok(SetOutcome::Stored(self.parsed("version")?)),
            "conflict" => match self.text("version")?.as_str() {
                "" => Ok(SetOutcome::Conflict(None)),
                version => Ok(SetOutcome::Conflict(Some(parse("version", version)?))),
            },
            kind => Err(unexpected("kind", kind)),
        }
    }

    pub(crate) fn delete_outcome(mut self) -> Result<DeleteOutcome, Error> {
        match self.text("kind")?.as_str() {
            "deleted" => Ok(DeleteOutcome::Deleted),
            "absent" => Ok(DeleteOutcome::Absent),
            "conflict" => Ok(DeleteOutcome::Conflict(self.parsed("version")?)),
            kind => Err(unexpected("kind", kind)),
        }
    }

    pub(crate) fn value(mut self) -> Result<Option<Value>, Error> {
        let Some(text) = self.texts.next() else {
            return Ok(None);
        };
        Ok(Some(Value {
            text,
            version: self.parsed("version")?,
            remaining: match self.parsed::<i64>("remaining time")? {
                // Redis' sign for a key without time to live.
                left if left < 0 => None,
                left => Some(Duration::from_millis(left.unsigned_abs())),
            },
        }))
    }

    fn acquired(&mut self) -> Result<Acquired, Error> {
        let epoch = self.parsed("epoch")?;
        let repeated = self.text("repetition")? == "1";
        let previous = match self.text("previous reign")?.as_str() {
            "" => None,
            text => Some(previous(text)?),
        };
        Ok(Acquired {
            epoch,
            previous,
            repeated,
        })
    }

    fn holder(&mut self) -> Result<Holder, Error> {
        let node = self.parsed("holder of the lock")?;
        let incarnation = match self.text("incarnation")?.as_str() {
            // Set by other hands than ours: no life of a node has this one.
            "" => Incarnation::from_bits(0),
            text => parse("incarnation", text)?,
        };
        Ok(Holder {
            owner: Owner { node, incarnation },
            epoch: self.parsed("epoch")?,
            info: self.text("info")?,
            remaining: self.milliseconds("remaining time")?,
        })
    }

    fn text(&mut self, what: &str) -> Result<String, Error> {
        self.texts.next().ok_or_else(|| unexpected(what, ""))
    }

    fn parsed<T: FromStr<Err: Display>>(&mut self, what: &str) -> Result<T, Error> {
        parse(what, &self.text(what)?)
    }

    fn milliseconds(&mut self, what: &str) -> Result<Duration, Error> {
        self.parsed(what).map(Duration::from_millis)
    }
}

/// `node incarnation epoch end milliseconds`; a node id has no spaces.
fn previous(text: &str) -> Result<Previous, Error> {
    let mut parts = Reply::new(text.split(' ').map(str::to_owned).collect());
    let owner = Owner {
        node: parts.parsed("previous node")?,
        incarnation: parts.parsed("previous incarnation")?,
    };
    let epoch = parts.parsed("previous epoch")?;
    let end = match parts.text("previous end")?.as_str() {
        "released" => ReignEnd::Released,
        "expired" => ReignEnd::Expired,
        "dead" => ReignEnd::Dead,
        "unknown" => ReignEnd::Unknown,
        other => return Err(unexpected("previous end", other)),
    };
    let lease_left = parts.milliseconds("previous lease")?;
    Ok(Previous {
        owner,
        epoch,
        end,
        lease_left,
    })
}

fn parse<T: FromStr<Err: Display>>(what: &str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| unexpected(what, text))
}

/// The script has run; only its answer cannot be read.
fn unexpected(what: &str, text: &str) -> Error {
    Error::unknown(format!(
        "what redis holds cannot be read: {what} is {text:?}; somebody else may have written the key"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(texts: &[&str]) -> Reply {
        Reply::new(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_no_answer() {
        let life = "0".repeat(32);
        for texts in [
            &[][..],
            &["nonsense"],
            &["held", "a node", &life, "1", "", "5"],
            &["held", "a", "nonsense", "1", "", "5"],
            &["held", "a", &life, "1", ""],
            &["acquired", "9007199254740992", "0", ""],
            &["acquired", "1", "0", "a b"],
            &["reserved", "a", "-1", "1"],
        ] {
            let error = reply(texts).lock_outcome().unwrap_err();
            assert!(error.is_retryable(), "{texts:?}");
        }
    }

    #[test]
    fn a_previous_reign_is_read() {
        let life = Incarnation::from_bits(7);
        let text = format!("a {life} 3 unknown 250");
        let previous = previous(&text).unwrap();
        assert_eq!(previous.owner.incarnation, life);
        assert_eq!(previous.end, ReignEnd::Unknown);
        assert_eq!(previous.lease_left, Duration::from_millis(250));
    }
}
