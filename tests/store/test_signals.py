"""A signal is heard over one connection of the process by everybody it is for, and by nobody else."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from holdfast.domain.job import NewJob
from holdfast.errors import InvalidArgument
from holdfast.store import SyncStore
from holdfast.store.signals import Mode, Signals
from holdfast.store.subscriptions import Subscription, Switchboard
from tests.conftest import Connect
from tests.databases import Databases
from tests.store.ears import (
    NAME,
    PATIENCE_S,
    Ear,
    Lines,
    Sharing,
    listening,
    notify,
    thread_of,
    wait_until,
)
from tests.store.trouble import backend_pids


def test_a_signal_reaches_its_subscribers_and_nobody_else(
    signals: Signals, conn: psycopg.Connection[Any]
) -> None:
    first, _ = listening(signals, "a", "b")
    second, _ = listening(signals, "b", "c")

    notify(conn, "a")
    assert first.next() == {"a"}
    notify(conn, "c")
    assert second.next() == {"c"}
    notify(conn, "b")

    assert (first.next(), second.next()) == ({"b"}, {"b"})
    assert signals.mode is Mode.LISTENING


def test_what_a_job_of_the_engine_signals_is_heard(signals: Signals, store: SyncStore) -> None:
    ear, _ = listening(signals, "holdfast.need.default")

    store.submit_jobs([NewJob()])

    assert ear.next() == {"holdfast.need.default"}


def test_signals_that_arrived_together_make_one_call(signals: Signals, conn: psycopg.Connection[Any]) -> None:
    ear, _ = listening(signals, "a", "b", "last")

    conn.execute("select pg_notify('a', n::text), pg_notify('b', n::text) from generate_series(1, 20) n")
    notify(conn, "last")

    calls = ear.until("last")
    assert [call - {"last"} for call in calls if call != {"last"}] == [{"a", "b"}]


def test_signals_that_arrive_during_a_callback_make_few_calls(
    signals: Signals, conn: psycopg.Connection[Any]
) -> None:
    ear, is_listened_to, busy, done = Ear(), threading.Event(), threading.Event(), threading.Event()

    # Whoever reads the line waits for the end of a callback before the same one is called again.
    def be_busy(channels: Mapping[str, str]) -> None:
        if is_listened_to.is_set() and "hold" in channels:
            busy.set()
            done.wait(PATIENCE_S)
        ear(channels)

    signals.subscribe(["a", "hold", "last"], be_busy)
    assert ear.next() == {"a", "hold", "last"}
    is_listened_to.set()
    notify(conn, "hold")
    assert busy.wait(PATIENCE_S)
    for _ in range(200):
        notify(conn, "a")
    notify(conn, "last")
    done.set()

    assert len(ear.until("last")) < 20


def test_a_channel_is_called_for_once_when_it_is_listened_to(
    signals: Signals, conn: psycopg.Connection[Any]
) -> None:
    ear, subscription = listening(signals, "a")
    late, _ = listening(signals, "a")

    subscription.set_channels(["a", "b"])
    assert ear.next() == {"b"}
    notify(conn, "a")

    assert (ear.next(), late.next()) == ({"a"}, {"a"})


def test_channels_given_up_are_not_called_for(signals: Signals, conn: psycopg.Connection[Any]) -> None:
    ear, subscription = listening(signals, "a", "b")
    other, _ = listening(signals, "b")

    subscription.set_channels(["a", "c"])
    assert ear.next() == {"c"}
    notify(conn, "b")
    assert other.next() == {"b"}
    notify(conn, "a")

    assert ear.next() == {"a"}


@pytest.mark.parametrize(
    "channel",
    [
        'with "quotes"',
        "a.b.c",
        "some  spaces ",
        "Üñï 日本 🦊",
        "'; drop table x; --",
        "UPPER",
        "%s {}",
        "\\n\n",
        "x" * 63,
    ],
)
def test_a_channel_may_have_any_name(signals: Signals, conn: psycopg.Connection[Any], channel: str) -> None:
    ear, _ = listening(signals, channel)

    notify(conn, channel)

    assert ear.next() == {channel}


@pytest.mark.parametrize("channel", ["", "x" * 64, "ü" * 32, "a\0b", "\udc80"])
def test_what_cannot_be_a_channel_is_refused(signals: Signals, channel: str) -> None:
    with pytest.raises(InvalidArgument, match="channel"):
        signals.subscribe([channel], Ear())


def test_a_text_is_not_a_list_of_channels(signals: Signals) -> None:
    with pytest.raises(InvalidArgument, match="not a str"):
        signals.subscribe("abc", Ear())


def test_a_name_the_database_cannot_spell_keeps_no_other_from_being_heard(
    databases: Databases, connect: Connect, lines: Lines
) -> None:
    name = databases.create(template="template0", options="encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'")
    dsn = databases.dsn(name)
    with Sharing(dsn) as signals:
        ear, _ = listening(signals, "a", "日本")
        notify(connect(dsn), "a")

        assert ear.next() == {"a"}
    databases.drop_later(name)
    assert "日本" in lines.wait_for("refuses")


@pytest.mark.parametrize("problem", [RuntimeError("oh"), SystemExit(1), KeyboardInterrupt()])
def test_a_callback_that_raises_is_logged_and_hinders_nobody(
    signals: Signals, conn: psycopg.Connection[Any], lines: Lines, problem: BaseException
) -> None:
    def fail(_: Mapping[str, str]) -> None:
        raise problem

    signals.subscribe(["a"], fail)
    lines.wait_for("a callback for signals on a failed")
    ear, _ = listening(signals, "a")

    notify(conn, "a")

    assert ear.next() == {"a"}


def test_a_closed_subscription_is_not_called(signals: Signals, conn: psycopg.Connection[Any]) -> None:
    closed, subscription = listening(signals, "a")
    ear, _ = listening(signals, "a")

    subscription.close()
    subscription.close()
    notify(conn, "a")

    assert ear.next() == {"a"}
    assert closed.is_silent()
    with pytest.raises(InvalidArgument, match="closed"):
        subscription.set_channels(["b"])


def test_who_leaves_a_channel_while_others_are_called_is_not_called(
    signals: Signals, conn: psycopg.Connection[Any]
) -> None:
    all_are_here = threading.Event()

    def make_others_leave(_: Mapping[str, str]) -> None:
        if all_are_here.is_set():
            leaver.set_channels(["b"])
            closed.close()

    signals.subscribe(["a"], make_others_leave)
    left, leaver = listening(signals, "a")
    ended, closed = listening(signals, "a")
    last, _ = listening(signals, "a")
    all_are_here.set()

    notify(conn, "a")

    assert last.next() == {"a"}
    assert left.next() == {"b"}
    assert ended.is_silent()


def test_closing_waits_for_a_callback_that_runs(signals: Signals) -> None:
    running, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def callback(_: Mapping[str, str]) -> None:
        running.set()
        go_on.wait(PATIENCE_S)
        ended.set()

    subscription = signals.subscribe(["a"], callback)
    assert running.wait(PATIENCE_S)
    closing = threading.Thread(target=subscription.close)
    closing.start()
    closing.join(0.2)
    was_waiting = closing.is_alive()
    go_on.set()
    closing.join(PATIENCE_S)

    assert was_waiting
    assert ended.is_set()


def test_a_callback_may_close_its_own_subscription_and_release_the_signals(database: str) -> None:
    signals = Signals.share(database)
    called = threading.Event()

    def callback(_: Mapping[str, str]) -> None:
        subscription.close()
        signals.release()
        called.set()

    subscription = signals.subscribe([], callback)
    subscription.set_channels(["a"])

    assert called.wait(PATIENCE_S)
    thread_of(signals).join(PATIENCE_S)
    assert not thread_of(signals).is_alive()


def test_everybody_shares_one_connection_until_the_last_one_leaves(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    shared = [Signals.share(database) for _ in range(3)]
    ears = [listening(signals, f"c{number % 5}")[0] for number in range(20) for signals in shared]
    notify(conn, "c0", "c1", "c2", "c3", "c4")
    assert all(len(ear.next()) == 1 for ear in ears)

    assert len({id(signals) for signals in shared}) == 1
    assert len(backend_pids(conn, NAME)) == 1
    shared[0].release()
    shared[1].release()
    assert thread_of(shared[2]).is_alive()
    shared[2].release()
    shared[2].release()

    assert not thread_of(shared[2]).is_alive()
    wait_until(lambda: backend_pids(conn, NAME) == [])
    with pytest.raises(InvalidArgument, match="released"):
        shared[2].subscribe(["a"], Ear())
    with Sharing(database) as again:
        assert again is not shared[2]


def test_the_users_own_name_for_the_application_is_kept(database: str, conn: psycopg.Connection[Any]) -> None:
    with Sharing(make_conninfo(database, application_name="shop")) as signals:
        listening(signals, "a")

        assert len(backend_pids(conn, "shop signals")) == 1


def test_a_signal_costs_only_those_it_is_for(signals: Signals, conn: psycopg.Connection[Any]) -> None:
    calls: list[Mapping[str, str]] = []
    for number in range(10_000):
        signals.subscribe([f"channel {number % 50}"], calls.append)
    ear, _ = listening(signals, "last")
    wait_until(lambda: len(calls) == 10_000)
    calls.clear()

    notify(conn, "channel 7")
    notify(conn, "last")
    ear.next()

    assert calls == [{"channel 7": ""}] * 200
    assert len(backend_pids(conn, NAME)) == 1


def test_a_channel_is_listened_to_once_however_many_subscribe() -> None:
    board = Switchboard()
    many = [Subscription(board, Ear(), lambda: None) for _ in range(100)]
    for subscription in many:
        subscription.set_channels(["a", "b"])
    assert board.take_changes().listen == {"a", "b"}

    for subscription in many[1:]:
        subscription.close()
    many[0].set_channels(["b"])

    changes = board.take_changes()
    assert not changes.listen
    assert changes.unlisten == {"a"}
    assert not board.take_changes()


def test_a_channel_left_and_taken_again_in_between_is_called_for_without_a_word_to_the_server() -> None:
    board = Switchboard()
    subscription = Subscription(board, Ear(), lambda: None)
    subscription.set_channels(["a"])
    board.take_changes()

    subscription.set_channels([])
    subscription.set_channels(["a"])

    changes = board.take_changes()
    assert (changes.listen, changes.unlisten) == (frozenset(), frozenset())
    assert changes.news == {subscription: {"a"}}


def test_changes_that_nobody_takes_leave_nothing_behind() -> None:
    """As where signals do not get through."""
    board = Switchboard()
    lasting = Subscription(board, Ear(), lambda: None)
    for number in range(100):
        subscription = Subscription(board, Ear(), lambda: None)
        subscription.set_channels([f"channel {number}"])
        lasting.set_channels([f"other channel {number}"])
        subscription.close()
    assert board._touched == {"other channel 99"}

    changes = board.take_changes()

    assert changes.listen == {"other channel 99"}
    assert changes.news == {lasting: {"other channel 99"}}
    lasting.close()
    board.take_changes()
    assert (board._subscribers, board._news, board._listened, board._touched) == ({}, {}, set(), set())
