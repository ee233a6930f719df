"""A large answer is read as it comes, without a turn of the event loop for each piece of it."""

from __future__ import annotations

import socket
from collections.abc import Generator

import pytest
from psycopg.abc import PQGen
from psycopg.waiting import Ready, Wait

from holdfast.store.connections import at_once

PIECE = 16


@pytest.fixture
def ends() -> Generator[tuple[socket.socket, socket.socket]]:
    server, client = socket.socketpair()
    with server, client:
        client.setblocking(False)
        yield server, client


def pieces(client: socket.socket, count: int) -> PQGen[int]:
    """What a driver does: wait until something can be read, and read a piece of it."""
    read = 0
    while read < count * PIECE:
        if (yield Wait.R) == Ready.R:
            read += len(client.recv(PIECE))
    return read


def turns(steps: PQGen[int]) -> int:
    """How often somebody had to wait."""
    count = 0
    try:
        wait = next(steps)
        while True:
            assert wait == Wait.R
            count += 1
            wait = steps.send(Ready.R)
    except StopIteration:
        return count


def test_what_has_arrived_is_read_in_one_turn(ends: tuple[socket.socket, socket.socket]) -> None:
    server, client = ends
    server.sendall(bytes(20 * PIECE))
    assert turns(at_once(pieces(client, 20), client.fileno())) == 1


def test_others_have_their_turn_in_between(ends: tuple[socket.socket, socket.socket]) -> None:
    server, client = ends
    server.sendall(bytes(200 * PIECE))
    assert turns(at_once(pieces(client, 200), client.fileno())) == 4


def test_what_has_not_arrived_is_waited_for(ends: tuple[socket.socket, socket.socket]) -> None:
    server, client = ends
    server.sendall(bytes(PIECE))
    steps = at_once(pieces(client, 2), client.fileno())
    next(steps)

    assert steps.send(Ready.R) == Wait.R  # nothing there: somebody else may go on

    server.sendall(bytes(PIECE))
    with pytest.raises(StopIteration):
        steps.send(Ready.R)
