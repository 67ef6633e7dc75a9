//! What one key can be, and what each operation makes of it.

/// What a key is. Places (`u32`) stand for URIs: none is ever granted twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyState {
    /// Nothing is known: the beginning of a reign that need not know the earlier ones, or the
    /// store was made to forget.
    Any,
    /// It cannot be read; whether it is being written is not known.
    NotServing,
    /// Neither stored nor being written.
    Absent,
    /// A session owns it.
    Writing(u32),
    /// It can be read.
    Serving(u32),
}

/// An operation on one key, with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyOp {
    /// A place was granted.
    Granted(u32),
    /// A place that nobody was told of was granted: a call whose answer was lost.
    GrantedUnseen(u32),
    /// No place was granted, since it is stored or being written.
    Denied,
    /// The session timed out.
    Expire(u32),
    /// The session was confirmed.
    Finish(u32),
    /// The session gave it up.
    GiveUp(u32),
    /// The session was said to be unknown.
    Gone(u32),
    /// It can be read at this place.
    Found(u32),
    /// It cannot be read.
    Missing,
    /// It is forgotten. Whatever it was: a session that owns it is confirmed for nothing then.
    Remove,
    /// The store was made to forget something.
    Forget,
}

impl KeyState {
    /// What `op` makes of it, or none when a correct cluster cannot answer so. `may_be_removed`:
    /// somebody removes this key at some time, so that a session may end without it.
    pub fn step(self, op: KeyOp, may_be_removed: bool) -> Option<Self> {
        use KeyState::{Absent, Any, NotServing, Serving, Writing};
        Some(match (op, self) {
            (KeyOp::Granted(place) | KeyOp::GrantedUnseen(place), Any | NotServing | Absent) => {
                Writing(place)
            }
            (KeyOp::Granted(_) | KeyOp::GrantedUnseen(_), _) => return None,

            (KeyOp::Denied, Absent) => return None,
            (KeyOp::Denied, other) => other,

            (KeyOp::Expire(place), Writing(own)) if own == place => Absent,
            (KeyOp::Expire(_), _) => return None,

            (KeyOp::Finish(place), Writing(own) | Serving(own)) if own == place => Serving(place),
            (KeyOp::Finish(place), Any | NotServing) => Serving(place),
            (KeyOp::Finish(_), other) if may_be_removed => other,
            (KeyOp::Finish(_), _) => return None,

            (KeyOp::GiveUp(place), Writing(own)) if own == place => Absent,
            (KeyOp::GiveUp(place), Serving(own)) if own == place => return None,
            (KeyOp::GiveUp(_), other) => other,

            (KeyOp::Gone(place), Writing(own) | Serving(own)) if own == place => return None,
            (KeyOp::Gone(_), other) => other,

            (KeyOp::Found(place), Serving(own)) if own == place => self,
            (KeyOp::Found(place), Any) => Serving(place),
            (KeyOp::Found(_), _) => return None,

            (KeyOp::Missing, Serving(_)) => return None,
            (KeyOp::Missing, Any) => NotServing,
            (KeyOp::Missing, other) => other,

            (KeyOp::Remove, _) => Absent,
            (KeyOp::Forget, _) => Any,
        })
    }
}

impl KeyOp {
    /// Whether it changes nothing, so that a history without it is as good a proof.
    pub(crate) const fn is_read(self) -> bool {
        matches!(
            self,
            Self::Denied | Self::Found(_) | Self::Missing | Self::Gone(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyOp::*, KeyState::*, *};

    fn run(from: KeyState, ops: &[KeyOp]) -> Option<KeyState> {
        ops.iter()
            .try_fold(from, |state, op| state.step(*op, false))
    }

    #[test]
    fn a_block_lives_from_its_grant_to_its_removal() {
        let life = [
            Missing,
            Granted(1),
            Missing,
            Denied,
            Finish(1),
            Finish(1),
            Found(1),
            Denied,
        ];
        assert_eq!(run(Absent, &life), Some(Serving(1)));
        assert_eq!(
            run(Serving(1), &[Remove, Missing, Granted(2)]),
            Some(Writing(2))
        );
        assert_eq!(
            run(Writing(1), &[Expire(1), Gone(1), Missing]),
            Some(Absent)
        );
        assert_eq!(run(Writing(1), &[GiveUp(1), Granted(2)]), Some(Writing(2)));
    }

    #[test]
    fn what_a_correct_cluster_cannot_answer_is_refused() {
        for (from, op) in [
            (Serving(1), Missing),
            (Serving(1), Found(2)),
            (Serving(1), Granted(2)),
            (Serving(1), Gone(1)),
            (Serving(1), GiveUp(1)),
            (Serving(1), Finish(2)),
            (Writing(1), Found(1)),
            (Writing(1), Granted(2)),
            (Writing(1), Gone(1)),
            (Absent, Denied),
            (Absent, Found(1)),
            (Absent, Finish(1)),
            (NotServing, Found(1)),
        ] {
            assert_eq!(from.step(op, false), None, "{from:?} {op:?}");
        }
        // Removed in between: the session is confirmed, and there is nothing of it.
        assert_eq!(Absent.step(Finish(1), true), Some(Absent));
    }

    #[test]
    fn the_first_answer_tells_what_was_not_known() {
        assert_eq!(run(Any, &[Found(1), Found(2)]), None);
        assert_eq!(run(Any, &[Missing, Found(1)]), None);
        assert_eq!(
            run(Any, &[Missing, Denied, Finish(1), Found(1)]),
            Some(Serving(1))
        );
    }
}
