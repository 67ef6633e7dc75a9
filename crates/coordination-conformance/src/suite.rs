//! All checks, as tests.

/// Expands to one `#[tokio::test]` for each check. Takes the path of an `async fn() -> impl
/// Subject` that makes an empty store; the caller's crate needs tokio with `macros` and
/// `rt-multi-thread`.
#[macro_export]
macro_rules! suite {
    ($make:path) => {
        $crate::suite! {
            @each $make;
            arguments: bad_arguments_are_fatal_and_named, a_past_deadline_returns_at_once;
            cancellation: a_lock_operation_may_be_dropped_wherever_it_waits,
                a_value_operation_may_be_dropped_wherever_it_waits;
            contention: one_wins_each_round, contended_values_lose_no_update;
            ends: release_is_told_to_the_next_reign, expiry_is_told_to_the_next_reign,
                a_dead_life_is_taken_over_at_once,
                a_life_without_ttl_leaves_its_lease_at_most, a_wrong_presumption_takes_nothing,
                an_own_expired_lock_is_a_new_reign;
            epochs: epochs_rise_across_release_and_expiry, the_epoch_is_above_the_floor,
                epochs_rise_across_data_loss, epochs_rise_across_a_restart,
                epochs_of_different_locks_are_apart;
            locks: a_free_lock_is_acquired, a_held_lock_tells_its_holder,
                the_holder_acquires_again_in_the_same_epoch,
                another_life_of_the_node_is_another_owner,
                similar_node_ids_are_different_owners, similar_keys_are_different_locks,
                renewal_starts_the_lease_anew_and_replaces_info,
                renewal_after_the_end_is_not_held, renewal_by_another_changes_nothing,
                unlock_by_another_changes_nothing, unlock_of_a_free_lock_is_not_held,
                a_renewed_lock_outlives_its_first_lease, a_lock_without_ttl_gets_one;
            reservations: only_the_named_node_acquires, a_reservation_ends_in_time,
                taking_a_reserved_lock_ends_the_reservation;
            values: set_get_and_delete, versions_rise_and_are_expected,
                a_value_expires_unless_it_is_set_again, setting_without_ttl_keeps_the_value,
                lists_come_by_prefix_in_order, a_prefix_is_no_pattern,
                locks_and_values_are_apart, texts_come_back_as_they_were;
            watches: a_release_wakes, an_acquisition_wakes, a_changed_info_wakes;
        }
    };
    (@each $make:path; $($module:ident: $($check:ident),+;)+) => {$($(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $check() {
            let subject = $make().await;
            $crate::$module::$check(&subject).await;
        }
    )+)+};
}
