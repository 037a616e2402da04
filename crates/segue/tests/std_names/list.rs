// The names of the cases, which the includer says how to run.

cases! {
    a_mutex_lets_one_in_at_a_time,
    a_lock_is_poisoned_by_an_owner_that_panics,
    a_lock_that_was_locked_during_a_panic_is_not_poisoned_by_it,
    readers_share_and_writers_do_not,
    a_condition_hands_over,
    a_condition_waits_no_longer_than_it_is_told,
    one_of_each_round_leads,
    what_is_done_once_is_waited_for,
    who_only_waits_is_told_of_the_end,
    who_waits_for_a_closure_that_panics_does_as_well,
    a_lazy_value_is_looked_at_and_changed,
    a_writer_goes_on_as_a_reader,
    a_channel_ends_with_its_senders_and_its_receiver,
    a_bounded_channel_waits_for_room,
    a_join_has_the_result_or_the_panic,
    a_scope_waits_and_lends,
    a_scope_tells_of_a_panic_that_nobody_has_joined,
    a_token_is_taken_by_one_park,
}
