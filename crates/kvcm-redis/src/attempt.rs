//! One call with its deadline, over connections that are lent.

use std::sync::Arc;

use kvcm_clock::{Clock, Moment, Timer, TokioTimer};
use redis::RedisResult;

use crate::{
    Class, Failure, Link, Outcome,
    class::{Connection, redirection},
    link::Place,
};

/// How often one call follows a slot from node to node.
const REDIRECTIONS_MAX: u32 = 5;

/// Whether a call may be repeated when its connection broke before the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Doing it twice is doing it once.
    Safe,
    /// Only when it is certain that it has not happened.
    Unsafe,
}

/// A connection for one call. Dropping it closes it: a connection whose call was given up still
/// has an answer to come, and the server behind it may be stopped.
pub(crate) trait Lent {
    /// What a call is made with.
    fn link(&self) -> &Link;

    /// Gives it back for others.
    fn keep(self);

    /// The next call is for this place.
    fn redirect(self, place: Place);
}

/// Where connections come from.
pub(crate) trait Lender {
    type Lent: Lent;

    /// A connection. The failure says that nothing has happened. Cancel-safe.
    async fn lend(&self, deadline: Moment) -> Result<Self::Lent, Failure>;
}

/// When to give up.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) retry_count: u32,
}

impl Limits {
    pub(crate) fn timer(&self) -> TokioTimer<Arc<dyn Clock>> {
        TokioTimer::new(self.clock.clone())
    }
}

/// Makes a call with a lent connection, again after failures where that is safe. `call` gets the
/// number of tries that may have happened before.
pub(crate) async fn attempt<L: Lender, T, F>(
    lender: &L,
    limits: &Limits,
    repeat: Repeat,
    deadline: Moment,
    mut call: impl FnMut(Link, u32) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = RedisResult<T>>,
{
    if limits.clock.now() >= deadline {
        return Err(Failure::not_done("the deadline has passed"));
    }
    let mut retries_left = limits.retry_count;
    let mut redirections_left = REDIRECTIONS_MAX;
    let mut maybe_done = 0;
    loop {
        let (failure, again) = match lender.lend(deadline).await {
            Err(failure) => {
                let again = matches!(failure.class, Class::Retryable { .. });
                (failure, again)
            }
            Ok(lent) => match once(lent.link(), limits, deadline, maybe_done, &mut call).await {
                Once::Answered(value) => {
                    lent.keep();
                    return Ok(value);
                }
                Once::Moved(_, place) if redirections_left > 0 => {
                    redirections_left -= 1;
                    lent.redirect(place);
                    continue;
                }
                Once::Moved(failure, _) => (failure, false),
                Once::Failed(failure, connection) => {
                    if connection == Connection::Keep {
                        lent.keep();
                    }
                    (failure, connection == Connection::Lost)
                }
            },
        };
        let failure = match maybe_done {
            0 => failure,
            _ => failure.after_unknown(),
        };
        let unknown = matches!(
            failure.class,
            Class::Retryable {
                outcome: Outcome::Unknown
            }
        );
        let allowed = repeat == Repeat::Safe || !unknown;
        if !again || !allowed || retries_left == 0 || limits.clock.now() >= deadline {
            return Err(failure);
        }
        retries_left -= 1;
        maybe_done += u32::from(unknown);
    }
}

enum Once<T> {
    Answered(T),
    Moved(Failure, Place),
    Failed(Failure, Connection),
}

async fn once<T, F>(
    link: &Link,
    limits: &Limits,
    deadline: Moment,
    maybe_done: u32,
    call: &mut impl FnMut(Link, u32) -> F,
) -> Once<T>
where
    F: Future<Output = RedisResult<T>>,
{
    let timer = limits.timer();
    tokio::select! {
        biased;
        result = call(link.clone(), maybe_done) => match result {
            Ok(value) => Once::Answered(value),
            Err(error) => {
                let connection = Connection::after(&error);
                let failure = Failure::from(error.clone());
                match redirection(&error, link.address()) {
                    Some(place) if connection == Connection::Moved => Once::Moved(failure, place),
                    _ => Once::Failed(failure, connection),
                }
            }
        },
        () = timer.sleep_until(deadline) => {
            let failure = Failure::unknown("no answer by the deadline");
            Once::Failed(failure, Connection::Drop)
        }
    }
}
