"""What holds for streams of this process holds over HTTP: the scenarios of `tests/queue`, run again."""

from __future__ import annotations

import inspect
from types import ModuleType

from tests.queue import (
    test_streams_begin,
    test_streams_cancel,
    test_streams_capacity,
    test_streams_end,
    test_streams_leases,
    test_streams_trouble,
    test_streams_wake,
)

AHEAD = "a server sends what it has: only a full connection keeps jobs back, see test_losses"
OBJECTS = "about objects of Python"
SHORT = "a second is too short a lease over a network; test_losses takes longer ones"
GOES_ON = "a server lets go of what has arrived when the connection ends, see test_losses"

LEFT_OUT = {
    "test_a_stream_begins_with_what_is_there": "jobs come one by one, not as a batch",
    "test_a_backlog_larger_than_one_claim_is_found": "capacity has a limit",
    "test_a_stream_says_whose_it_is_and_how_much_it_holds": OBJECTS,
    "test_cancelled_between_assignment_and_delivery_is_stopped_and_frees_the_slot": AHEAD,
    "test_a_job_cancelled_long_before_the_reader_comes_is_not_delivered_though_nobody_was_told": AHEAD,
    "test_the_slot_of_a_cancelled_job_is_not_used_before_the_job_is_handed_back": AHEAD,
    "test_a_slot_forfeited_elsewhere_is_lost_though_the_job_is_just_being_handed_back": AHEAD,
    "test_a_callback_that_raises_is_logged_and_hurts_nobody": OBJECTS,
    "test_what_its_own_queue_takes_away_is_heard_of_at_once_without_signals": OBJECTS,
    "test_what_is_released_through_its_own_queue_is_lost_and_delivered_anew": OBJECTS,
    "test_closing_the_queue_ends_every_stream_and_every_reader_that_waits": "see test_servers",
    "test_closing_the_queue_hands_back_what_no_stream_had_delivered": "see test_servers",
    "test_what_was_not_delivered_goes_back_at_once_and_says_why_without_an_attempt": AHEAD,
    "test_what_was_being_cancelled_and_not_delivered_is_stopped_at_the_end": AHEAD,
    "test_delivered_jobs_can_be_settled_after_the_end_and_their_leases_are_kept_until_then": GOES_ON,
    "test_a_callback_cannot_be_added_to_an_ended_stream": OBJECTS,
    "test_leases_are_kept_until_the_jobs_are_settled_delivered_or_not": SHORT,
    "test_leases_of_different_lengths_are_each_kept": SHORT,
    "test_a_job_that_is_being_cancelled_is_kept_until_that_is_acknowledged": SHORT,
    "test_streams_that_end_do_not_put_the_others_of_their_line_to_sleep": "about feeding, which is the same",
    "test_the_keeper_rests_while_there_is_nothing_to_keep": "a server rests otherwise",
    "test_what_the_database_refuses_for_good_is_raised_to_the_reader_and_ends_the_stream": "see test_losses",
    "test_a_role_without_rights_is_told_so_and_streams_with_rights_go_on": "see test_losses",
    "test_a_restarted_server_is_survived_and_it_is_said_once": OBJECTS,
    "test_a_job_whose_lease_ran_out_while_the_server_was_silent_is_not_delivered_blindly": AHEAD,
}
"""Scenarios that cannot be had over HTTP, and why."""


def _scenarios(module: ModuleType) -> dict[str, object]:
    """Those that open streams of whatever kind they are given."""
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_") and "side" in inspect.signature(test).parameters
    }


for _module in (
    test_streams_begin,
    test_streams_cancel,
    test_streams_capacity,
    test_streams_end,
    test_streams_leases,
    test_streams_wake,
    test_streams_trouble,
):
    globals().update({name: test for name, test in _scenarios(_module).items() if name not in LEFT_OUT})
