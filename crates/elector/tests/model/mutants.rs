//! Cores and drivers that are broken on purpose: each must be caught.
//!
//! The first five are the first five faults that leader elections of this kind have been seen to
//! have. All of them falsify what a core hears or what it says; none touches the product.

use coordination_core::{LockOutcome, Previous, ReignEnd, RenewOutcome};
use elector::{Command, Core, Input, Role};
use kvcm_clock::Moment;

use crate::state::{Broken, Budget, LEASE, NOW, Node, Worker, settings};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Nothing.
    None,
    /// Fault 1: a lock that is lost during the promotion is forgotten; the promotion runs on and
    /// ends as leader.
    LossDuringPromotionIgnored,
    /// Fault 2: the lock may be regained while the demote callback still runs.
    RegainsWhileDemoting,
    /// Fault 3: after a demotion the node holds the lock and refuses everything.
    HoldsAndRefuses,
    /// Fault 4: a promotion that failed leaves the lock held.
    FailedPromotionKeepsLock,
    /// Fault 5: an answer that comes late extends the lease from when it came.
    LateAnswerExtends,
    /// Fault 5, the other half: an answer to a renewal re-opens the gate of a reign that is over.
    LateAnswerReopens,
    /// The lock is released while requests are in flight.
    ReleasesBeforeDrain,
    /// An epoch that was given up is led in again.
    ForgetsRetired,
    /// The gate opens with the end of the promotion.
    OpensUnconfirmed,
    /// An unproven end is taken for a proven one.
    SkipsGuard,
    /// The lock is released while the end of the reign before is unproven.
    ReleasesInGuard,
    /// The gate does not look at its deadline.
    GateTrustsTimers,
    /// The gate is shut after the unlock.
    UnlocksBeforeShut,
    /// The store accepts a claim of an equal epoch.
    EqualClaimsPass,
    /// The store does not look at the fence.
    WritesUnfenced,
    /// The leader is not told who claimed the store before.
    ClaimsTellNothing,
    /// A transfer releases the lock without keeping it for the successor.
    DropsReservation,
    /// A transfer that is cancelled after the release opens the gate again.
    ReopensAfterRelease,
    /// A transfer that is taken back leaves the gate shut.
    AbortStaysShut,
    /// A drain for a transfer that is taken back releases the lock all the same.
    AbortReleases,
    /// A node that is held back campaigns.
    HeldBackCampaigns,
    /// A node that is not ready waits for others for ever.
    DefersForEver,
    /// A timer that has fired is set to the same moment again.
    SpinsOnTimers,
}

/// Each with the number of nodes and the faults that show it, and the property that then breaks.
#[rustfmt::skip]
pub(crate) const MUTANTS: &[(Mutant, usize, Budget, Broken)] = &[
    (Mutant::LossDuringPromotionIgnored, 2, Budget { vanish: 1, ..NO }, Broken::GateWithoutLock),
    (Mutant::RegainsWhileDemoting, 2, Budget { demote: 1, ..NO }, Broken::Alternation),
    (Mutant::HoldsAndRefuses, 2, Budget { demote: 1, ..NO }, Broken::Stuck),
    (Mutant::FailedPromotionKeepsLock, 2, Budget { fail: 1, ..NO }, Broken::Stuck),
    (Mutant::LateAnswerExtends, 2, Budget { lost: 2, slow: 1, ..NO }, Broken::GateOutlivesLock),
    (Mutant::LateAnswerReopens, 2, Budget { pause: 1, ..NO }, Broken::GateWithoutLock),
    (Mutant::ReleasesBeforeDrain, 2, Budget { demote: 1, ..NO }, Broken::GateOutlivesLock),
    (Mutant::ForgetsRetired, 2, Budget { pause: 1, ..NO }, Broken::EpochLedTwice),
    (Mutant::OpensUnconfirmed, 2, Budget { vanish: 1, ..NO }, Broken::StaleServe),
    (Mutant::SkipsGuard, 2, Budget { vanish: 1, ..NO }, Broken::StaleServe),
    (Mutant::ReleasesInGuard, 3, Budget { vanish: 1, fail: 1, ..NO }, Broken::StaleServe),
    (Mutant::GateTrustsTimers, 2, Budget { pause: 1, ..NO }, Broken::GateOutlivesLock),
    (Mutant::UnlocksBeforeShut, 2, Budget { demote: 1, slow: 1, ..NO }, Broken::GateOutlivesLock),
    (Mutant::EqualClaimsPass, 2, Budget { flush_low: 1, ..NO }, Broken::ClaimsRise),
    (Mutant::WritesUnfenced, 2, Budget { pause: 1, admit: 1, ..NO }, Broken::WriteOfOther),
    (Mutant::ClaimsTellNothing, 2, Budget { flush: 1, ..NO }, Broken::StaleServe),
    (Mutant::DropsReservation, 3, Budget { transfer: 1, peers: 1, ..NO }, Broken::KeptLockTaken),
    (Mutant::ReopensAfterRelease, 2, Budget { transfer: 1, peers: 1, ..NO }, Broken::Alternation),
    (Mutant::AbortStaysShut, 2, Budget { transfer: 1, peers: 1, ..NO }, Broken::Stuck),
    (Mutant::AbortReleases, 2, Budget { transfer: 1, peers: 1, ..NO }, Broken::GateOutlivesLock),
    (Mutant::HeldBackCampaigns, 2, Budget { hold_back: 1, ..NO }, Broken::HeldBackCampaigns),
    (Mutant::DefersForEver, 2, Budget { unready: 2, peers: 1, ..NO }, Broken::Stuck),
    (Mutant::SpinsOnTimers, 2, NO, Broken::BusyWait),
];

const NO: Budget = Budget::NOTHING;

impl Mutant {
    pub(crate) fn is_broken(self) -> bool {
        self != Self::None
    }

    /// What the core hears instead of `input`; none when it hears nothing.
    pub(crate) fn input(self, node: &mut Node, input: Input) -> Option<Input> {
        match (self, input) {
            (Self::FailedPromotionKeepsLock, Input::Promoted { result: Err(_), .. }) => None,
            (Self::LateAnswerExtends, Input::RenewAnswered { epoch, result, .. }) => {
                Some(Input::RenewAnswered {
                    epoch,
                    sent: NOW,
                    result,
                })
            }
            (
                Self::SkipsGuard,
                Input::LockAnswered {
                    sent,
                    result: Ok(LockOutcome::Acquired(mut acquired)),
                },
            ) => {
                acquired.previous = Some(Previous {
                    owner: node.owner.clone(),
                    epoch: acquired.epoch,
                    end: ReignEnd::Released,
                    lease_left: std::time::Duration::ZERO,
                });
                let result = Ok(LockOutcome::Acquired(acquired));
                Some(Input::LockAnswered { sent, result })
            }
            (Self::HeldBackCampaigns, Input::Pause { .. }) => {
                node.held_back = true;
                None
            }
            (Self::ForgetsRetired, input) => {
                let regained = matches!(&input, Input::LockAnswered {
                    result: Ok(LockOutcome::Acquired(acquired)), ..
                } if acquired.repeated);
                let core = node.core.as_mut()?;
                if regained && core.view().role == Role::Follower {
                    *core = Core::new(settings(), node.owner.clone(), NOW);
                    let calls = core.step(NOW, Input::Tick);
                    debug_assert!(matches!(calls[0], Command::TryLock { .. }));
                }
                Some(input)
            }
            (_, input) => Some(input),
        }
    }

    /// What the driver hears instead of `commands`.
    pub(crate) fn commands(
        self,
        node: &mut Node,
        input: &Input,
        commands: Vec<Command>,
    ) -> Vec<Command> {
        let mut out = Vec::with_capacity(commands.len());
        let shuts = commands.iter().find_map(|command| match command {
            Command::ShutGate { epoch } => Some(*epoch),
            _ => None,
        });
        let unlocks = |command: &Command| matches!(command, Command::Unlock { .. });
        if self == Self::ReleasesInGuard
            && let Some(epoch) = shuts.filter(|epoch| node.held() == Some(*epoch))
            && !commands.iter().any(unlocks)
        {
            out.push(Command::Unlock {
                epoch,
                reserve: None,
            });
        }
        match (self, input) {
            (
                Self::LossDuringPromotionIgnored,
                Input::Promoted {
                    epoch,
                    result: Ok(()),
                },
            ) if commands.iter().any(|c| matches!(c, Command::Demote { .. })) => {
                out.push(open(*epoch, NOW + LEASE));
            }
            (
                Self::OpensUnconfirmed,
                Input::Promoted {
                    epoch,
                    result: Ok(()),
                },
            ) => {
                let view = node.core.as_ref().map(Core::view).unwrap_or_default();
                if let (Some(held), Some(until)) = (view.epoch, view.lease_end)
                    && held == *epoch
                {
                    out.push(open(held, until));
                }
            }
            (
                Self::LateAnswerReopens,
                Input::RenewAnswered {
                    epoch,
                    result: Ok(RenewOutcome::Renewed),
                    ..
                },
            ) if node.held() != Some(*epoch) && node.worker != Worker::Idle => {
                out.push(open(*epoch, NOW + LEASE));
            }
            (Self::ReopensAfterRelease, Input::CancelTransfer) if !node.gate.serve => {
                let view = node.core.as_ref().map(Core::view).unwrap_or_default();
                if let (Some(held), Some(until)) = (view.epoch, view.lease_end) {
                    out.push(open(held, until));
                }
            }
            _ => {}
        }
        for command in commands {
            match (self, command) {
                (
                    Self::LossDuringPromotionIgnored,
                    Command::CancelPromote { .. } | Command::Demote { .. },
                ) => {}
                (Self::RegainsWhileDemoting, Command::Demote { epoch, reason }) => {
                    out.push(Command::Demote { epoch, reason });
                    // The core believes that the callback has returned.
                    if let Some(core) = &mut node.core {
                        out.extend(core.step(NOW, Input::Demoted { epoch }));
                    }
                }
                (Self::HoldsAndRefuses, Command::Demote { epoch, reason }) => {
                    node.mark = true;
                    out.push(Command::Demote { epoch, reason });
                }
                (Self::HoldsAndRefuses, Command::OpenGate { .. }) if node.mark => {}
                (Self::ReleasesBeforeDrain, Command::Drain { epoch, .. }) => {
                    out.push(Command::Unlock {
                        epoch,
                        reserve: None,
                    });
                }
                (Self::DropsReservation, Command::Unlock { epoch, .. }) => {
                    out.push(Command::Unlock {
                        epoch,
                        reserve: None,
                    });
                }
                (Self::AbortStaysShut, Command::ReopenGate { .. }) => {}
                (Self::AbortReleases, Command::StopDrain { epoch }) => {
                    out.push(Command::StopDrain { epoch });
                    out.push(Command::Unlock {
                        epoch,
                        reserve: None,
                    });
                }
                // It is not fit, and will not be.
                (Self::DefersForEver, Command::Probe) => out.push(Command::Observe),
                (Self::UnlocksBeforeShut, Command::ShutGate { .. }) => {}
                (Self::UnlocksBeforeShut, Command::Demote { epoch, reason }) => {
                    out.push(Command::ShutGate { epoch });
                    out.push(Command::Demote { epoch, reason });
                }
                (Self::SpinsOnTimers, Command::Wake(_)) if *input == Input::Tick => {
                    out.push(Command::Wake(NOW));
                }
                (_, command) => out.push(command),
            }
        }
        out
    }
}

fn open(epoch: kvcm_fence::Epoch, until: Moment) -> Command {
    Command::OpenGate { epoch, until }
}
