//! When the next group is written.

use std::time::Duration;

use crate::queue::Queue;

/// A store whose writes take so long is slow.
const SLOW: Duration = Duration::from_millis(2);
/// Such a part of a slow write may be spent waiting for company.
const SHARE: u32 = 8;
/// How often a quick store's committer lets the others run.
const TURNS: u32 = 3;

/// Lets callers gather. Those whose batches were just acknowledged mostly come again at once; a
/// committer that writes the first of them alone leaves the others to wait for a whole write, and
/// with a few callers every write is half empty from then on.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// How many are likely to come, when they all come again.
    expected: u64,
    /// How long the last write took.
    write: Duration,
}

impl Pace {
    /// A write that took so long has acknowledged so many batches, while so many gathered.
    pub(crate) fn wrote(&mut self, write: Duration, acknowledged: u64, gathered: u64) {
        self.expected = acknowledged + gathered;
        self.write = write;
    }

    /// Waits for company; not at all for a single caller, and not when there is nothing to write.
    pub(crate) async fn gather(&self, queue: &Queue) {
        if !self.lacks(queue) {
            return;
        }
        if self.write < SLOW {
            // Timers are coarser than such a write.
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        } else {
            let company = async {
                while self.lacks(queue) {
                    queue.submitted.notified().await;
                }
            };
            // Whoever is there by then is written.
            let _ = tokio::time::timeout(self.write / SHARE, company).await;
        }
    }

    fn lacks(&self, queue: &Queue) -> bool {
        let gathered = queue.gathered();
        0 < gathered && gathered < self.expected
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, task::Poll};

    use bytes::Bytes;
    use kvcm_fence::{Claim, Epoch, Incarnation};

    use super::*;
    use crate::{Batch, LogSize};

    const WRITE: Duration = Duration::from_millis(80);

    fn queue() -> Arc<Queue> {
        let queue = Queue::new(Claim {
            cluster: "c".parse().unwrap(),
            epoch: Epoch::new(1).unwrap(),
            incarnation: Incarnation::from_bits(1),
        });
        queue.open(0, LogSize::default());
        Arc::new(queue)
    }

    fn submit(queue: &Queue) {
        queue
            .submit(Batch::new(1, 1, Bytes::from_static(b"x")))
            .unwrap();
    }

    fn pace(acknowledged: u64, gathered: u64) -> Pace {
        let mut pace = Pace::default();
        pace.wrote(WRITE, acknowledged, gathered);
        pace
    }

    /// Whether it waits for company at first.
    async fn waits(pace: &Pace, queue: &Queue) -> bool {
        let mut gathering = std::pin::pin!(pace.gather(queue));
        std::future::poll_fn(|context| Poll::Ready(gathering.as_mut().poll(context)))
            .await
            .is_pending()
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_without_company_to_come() {
        let queue = queue();
        assert!(
            !waits(&pace(8, 0), &queue).await,
            "there is nothing to write"
        );
        submit(&queue);
        assert!(!waits(&pace(1, 0), &queue).await, "a single caller");
        assert!(!waits(&Pace::default(), &queue).await, "the first one");
        assert!(waits(&pace(1, 1), &queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_goes_when_all_are_there_or_a_part_of_a_write_has_passed() {
        let queue = queue();
        submit(&queue);
        let pace = pace(2, 1);
        let begun = tokio::time::Instant::now();
        let company = async {
            submit(&queue);
            tokio::task::yield_now().await;
            submit(&queue);
        };
        tokio::join!(pace.gather(&queue), company);
        assert_eq!(begun.elapsed(), Duration::ZERO);
        queue.take().unwrap();
        queue.acknowledged();
        submit(&queue);
        pace.gather(&queue).await;
        assert_eq!(begun.elapsed(), WRITE / SHARE);
    }
}
