//! Many at once.

use coordination_core::{Expect, LockOutcome, SetOutcome, UnlockOutcome};
use futures_util::future::join_all;
use kvcm_fence::Epoch;

use crate::{
    Subject,
    handle::{Handle, LONG, owner},
};

/// Of many contenders exactly one acquires, all the others see it, and epochs rise.
pub async fn one_wins_each_round(subject: &dyn Subject) {
    let owners: Vec<_> = (0..8).map(|n| owner(&format!("n{n}"), n)).collect();
    let handles = join_all(owners.iter().map(|_| Handle::open(subject))).await;
    let mut last = Epoch::ZERO;
    for _ in 0..10 {
        let tries = handles.iter().zip(&owners);
        let outcomes = join_all(tries.map(|(handle, owner)| handle.try_lock(owner, LONG))).await;
        let mut winners = Vec::new();
        let mut seen = Vec::new();
        for (number, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                LockOutcome::Acquired(acquired) => winners.push((number, acquired.epoch)),
                LockOutcome::Held(holder) => seen.push((holder.owner, holder.epoch)),
                LockOutcome::Reserved(reserved) => panic!("{reserved:?}"),
            }
        }
        let [(winner, epoch)] = winners[..] else {
            panic!("{} of {} won: {winners:?}", winners.len(), owners.len());
        };
        assert!(epoch > last);
        last = epoch;
        assert!(
            seen.iter()
                .all(|seen| *seen == (owners[winner].clone(), epoch))
        );
        let unlocked = handles[winner].unlock(&owners[winner], epoch).await;
        assert_eq!(unlocked, UnlockOutcome::Unlocked);
    }
}

/// Read, change and set with the version that was read: no change of another is overwritten.
pub async fn contended_values_lose_no_update(subject: &dyn Subject) {
    let handles = join_all((0..4).map(|_| Handle::open(subject))).await;
    handles[0].store("sum", "0").await;
    join_all(handles.iter().map(|handle| async move {
        for _ in 0..10 {
            loop {
                let value = handle.get("sum").await.unwrap();
                let sum = value.text.parse::<u32>().unwrap() + 1;
                let expect = Expect::Version(value.version);
                let outcome = handle.set("sum", &sum.to_string(), None, expect).await;
                if matches!(outcome, SetOutcome::Stored(_)) {
                    break;
                }
            }
        }
    }))
    .await;
    assert_eq!(handles[0].get("sum").await.unwrap().text, "40");
}
