"""Ways into a worker program: `hf.run_worker`, and the command line of processes under a supervisor."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import holdfast
from holdfast.domain.measures import whole_number
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.worker import logs
from holdfast.worker.loading import refuse_while_loading
from holdfast.worker.settings import Settings, settings_from
from holdfast.worker.supervisor import Supervisor

if TYPE_CHECKING:
    from holdfast.worker.engine import App

# Not -m: this process may have found Holdfast on a path that a fresh interpreter does not have. Last in line,
# lest its neighbours stand in for Python's own modules.
_BOOT: Final = (
    "import sys; sys.path.append(sys.argv.pop()); from holdfast.cli import main; main(prog_name='holdfast')"
)


def run_worker(
    app: App,
    queues: Mapping[str, int],
    processes: int,
    log_format: str | None,
    log_level: str | None,
    given: Mapping[str, Any],
) -> None:
    """Run a worker of this app, or several, until a signal; raise SystemExit unless all went well."""
    _refuse_misuse()
    if whole_number(processes, "processes") > 1 and threading.current_thread() is not threading.main_thread():
        raise HoldfastError("several processes are run by the main thread, which hears the signals")
    if not logs.is_set_up():
        logs.set_up(log_format, log_level)
    code = (
        _run_here(app, queues, given)
        if processes == 1
        else _run_several(app, queues, processes, log_format, log_level, given)
    )
    if code:
        raise SystemExit(code)


def _refuse_misuse() -> None:
    refuse_while_loading()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise HoldfastError("run_worker() has an event loop of its own; on a running one: async with hf.worker()")


def _run_here(app: App, queues: Mapping[str, int], given: Mapping[str, Any]) -> int:
    from holdfast.worker import program
    from holdfast.worker.engine import Worker

    return program.run(Worker(app, queues, **given))


def _run_several(
    app: App,
    queues: Mapping[str, int],
    processes: int,
    log_format: str | None,
    log_level: str | None,
    given: Mapping[str, Any],
) -> int:
    settings = {name: value for name, value in given.items() if name != "tags"}
    checked = settings_from(settings)
    exact = {name: getattr(checked, name) for name, value in settings.items() if value is not None}
    # Whoever runs a script finds its neighbours; the processes that import it must, too.
    known = filter(None, [sys.path[0], os.environ.get("PYTHONPATH")])
    command = worker_command(target_of(app), queues, given.get("tags", ()), log_format, log_level, exact)
    environment = {"PYTHONPATH": os.pathsep.join(known)}
    return Supervisor(command, processes, checked.shutdown_timeout, environment).run()


def target_of(app: object) -> str:
    """Where other processes find this app: a module, and the variable that holds it there."""
    from holdfast.tasks.naming import module_name

    main_first = sorted(sys.modules.items(), key=lambda item: item[0] != "__main__")
    for name, module in main_first:
        for variable, value in list(getattr(module, "__dict__", {}).items()):
            if value is app and (importable := module_name(name)) != "__main__":
                return f"{importable}:{variable}"
    raise InvalidArgument(
        "several processes must find the app in a module: assign it to a name at the top of one, "
        "as in hf = Holdfast()"
    )


def supervise(
    target: str,
    processes: int,
    queues: Mapping[str, int],
    tags: Iterable[str],
    log_format: str | None,
    log_level: str | None,
    given: Mapping[str, Any],
    settings: Settings,
) -> int:
    """Run an app's worker in several processes until told to stop; the exit code of this process."""
    command = worker_command(target, queues, tags, log_format, log_level, given)
    return Supervisor(command, processes, settings.shutdown_timeout).run(is_last=True)


def worker_command(
    target: str,
    queues: Mapping[str, int],
    tags: Iterable[str],
    log_format: str | None,
    log_level: str | None,
    given: Mapping[str, Any],
) -> list[str]:
    """`holdfast worker ...` in a fresh interpreter; settings that were not given are found there again."""
    flags: list[str] = []
    for queue, size in queues.items():
        flags += ["--queue", f"{queue}={size}"]
    for tag in tags:
        flags += ["--tag", tag]
    named = {"log_format": log_format, "log_level": log_level, **given}
    for name, value in named.items():
        if value is not None:
            flags += [f"--{name.replace('_', '-')}", str(value)]
    ours = str(Path(holdfast.__file__).parents[1])
    # -P: what lies in the directory must not stand in for Python's own modules while the process starts.
    return [sys.executable, "-P", "-c", _BOOT, "worker", target, *flags, ours]
