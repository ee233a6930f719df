"""Nothing said under a lease that is over changes anything; what was taken under a lease ended that lease.

Whoever was not answered says it again, under the same lease: that is taken if the first time was. So is a
stop by whoever has acknowledged a cancellation a moment before: the job is stopped, as it says.
"""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import HELD, NO, OK, UNKNOWN, Call, Found, History, Story

SETTLES = frozenset({"complete_job", "fail_job", "stop_job", "complete_with_effect"})


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, story in stories.items():
        for call in story.calls:
            if call.op == "zombie" and call.said == OK:
                verb = call.spec.get("verb")
                yield job, f"{verb} was taken under lease {call.lease}, which was over ({call.who})"
            if (
                call.op in SETTLES
                and call.said == OK
                and not _ended_by(story, _with_what_it_repeats(story, call))
            ):
                yield job, f"{call.op} was taken under lease {call.lease}, which did not end ({call.who})"


def _with_what_it_repeats(story: Story, call: Call) -> Call:
    """The call from when the same was said first, as long as nobody answered, or in other words."""
    before = [
        other.begun
        for other in story.calls
        if other.who == call.who and other.begun < call.begun and _says_the_same(other, call)
    ]
    return call._replace(begun=min([call.begun, *before]))


def _says_the_same(other: Call, call: Call) -> bool:
    if (call.op, other.op) == ("stop_job", "acknowledge_cancellation"):
        return other.said != NO
    return (other.op, other.lease, other.said) == (call.op, call.lease, UNKNOWN)


def _ended_by(story: Story, call: Call) -> bool:
    """Whether a hold under the lease of the call ended while the call was under way."""
    return any(
        before is not None
        and before.lease == call.lease
        and (before.state in HELD or before.state == "UNKNOWN_RETRY" or before.state == "UNKNOWN_STOPPED")
        and change.state not in HELD
        and call.begun - 0.01 <= change.at <= call.ended + 0.01
        for before, change in story.steps()
    )
