//! The story of one call, step by step.

use std::{fmt, time::Duration};

/// Steps kept from the beginning of a call.
const KEPT_FIRST: usize = 8;
/// Steps kept from its end.
const KEPT_LAST: usize = 8;

/// One step of a call: a try at a node, or a search for the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// `host:port` that was called; `None`: a search for the leader, which asks several nodes.
    pub node: Option<String>,
    /// The epoch under which the node was believed to lead; 0 when it has none.
    pub epoch: u64,
    /// The protocol's `ErrorCode`, when the node answered with one.
    pub code: Option<i32>,
    /// What came of it.
    pub result: String,
    /// How long it took.
    pub elapsed: Duration,
    /// The wait that followed.
    pub wait: Duration,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "{node}")?,
            None => f.write_str("search for the leader")?,
        }
        if self.epoch > 0 {
            write!(f, " epoch {}", self.epoch)?;
        }
        write!(f, ": {} after {} ms", self.result, self.elapsed.as_millis())?;
        if !self.wait.is_zero() {
            write!(f, " then waited {} ms", self.wait.as_millis())?;
        }
        Ok(())
    }
}

/// Collects the steps of a call; bounded, whatever the deadline.
#[derive(Debug, Default)]
pub(crate) struct Story {
    steps: Vec<Attempt>,
    total: u32,
}

impl Story {
    pub(crate) fn push(&mut self, attempt: Attempt) {
        if self.steps.len() == KEPT_FIRST + KEPT_LAST {
            self.steps.remove(KEPT_FIRST);
        }
        self.steps.push(attempt);
        self.total += 1;
    }

    /// Notes a wait after the last step.
    pub(crate) fn waited(&mut self, wait: Duration) {
        if let Some(last) = self.steps.last_mut() {
            last.wait += wait;
        }
    }

    /// What the last step ended in.
    pub(crate) fn last_result(&self) -> &str {
        self.steps.last().map_or("", |step| &step.result)
    }

    pub(crate) fn into_parts(self) -> (Vec<Attempt>, u32) {
        (self.steps, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_story_keeps_its_beginning_and_its_end() {
        let mut story = Story::default();
        for step in 0..100 {
            story.push(Attempt {
                node: None,
                epoch: step,
                code: None,
                result: String::new(),
                elapsed: Duration::ZERO,
                wait: Duration::ZERO,
            });
        }
        let (steps, total) = story.into_parts();
        let kept: Vec<_> = steps.iter().map(|step| step.epoch).collect();
        assert_eq!(total, 100);
        assert_eq!(kept[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(kept[8..], [92, 93, 94, 95, 96, 97, 98, 99]);
    }
}
