"""Start the server, outlive the process that asked for it, and stop it when nobody uses it any more.

Runs alone (`python -I -S watchdog.py …`), imports next to nothing and then only waits: 7 MB. Its arguments:
the directory, the descriptor of the server lock, the user and group to become (or -), the server's command.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys

HELD_BACK = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}


def main() -> None:
    """Be the server's parent until it ends."""
    directory, lock, uid, gid, *command = sys.argv[1:]
    if os.fork() > 0:  # the caller waits for this first process only, so that no zombie is left to it
        os._exit(0)
    # Everything that needs root's rights comes first.
    start = os.open(os.path.join(directory, "start.lock"), os.O_RDWR)
    users = os.open(os.path.join(directory, "users.lock"), os.O_RDWR)
    if uid != "-":
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    server = run(command, int(lock))
    if wait_until_unused(start, users, os.path.join(directory, "keep")):
        os.kill(server, signal.SIGINT)  # a fast shutdown; the start lock is held until the server is gone
    os.waitpid(server, 0)


def run(command: list[str], lock: int) -> int:
    """Start the server. Its processes inherit the server lock, so that is free only when the last is gone."""
    server = 0

    def server_ended(*_: object) -> None:
        if os.waitpid(server, os.WNOHANG)[0] == server:
            os._exit(0)

    def asked_to_end(*_: object) -> None:
        os.kill(server, signal.SIGINT)

    # Held back until we know the server's number, lest a server that dies at once goes unnoticed; and in the
    # server until it is PostgreSQL, lest Python takes note of a signal and is then replaced.
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    server = os.fork()
    if server == 0:
        execute(command, lock)
    signal.signal(signal.SIGCHLD, server_ended)
    signal.signal(signal.SIGTERM, asked_to_end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.close(lock)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
    return server


def execute(command: list[str], lock: int) -> None:
    """Become the server."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
        os.setsid()
        os.set_inheritable(lock, True)
        os.execv(command[0], command)  # noqa: S606
    except OSError as problem:
        os.write(2, f"FATAL:  {command[0]} could not be started: {problem}\n".encode())
    finally:
        os._exit(127)


def wait_until_unused(start: int, users: int, keep: str) -> bool:
    """Return when nobody uses the server: True, and the start lock is held, or False if it is to be kept."""
    while True:
        fcntl.flock(users, fcntl.LOCK_EX)
        # Let go before taking the start lock: a newcomer holds that one first and then asks for this one.
        fcntl.flock(users, fcntl.LOCK_UN)
        fcntl.flock(start, fcntl.LOCK_EX)
        kept = os.path.exists(keep)
        if not kept and is_unused(users):
            return True
        fcntl.flock(start, fcntl.LOCK_UN)
        if kept:
            return False


def is_unused(users: int) -> bool:
    """True if no newcomer took the users' lock before we had the start lock; it then stays so."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(users, fcntl.LOCK_UN)
    return True


if __name__ == "__main__":
    main()
