"""Which jobs a command means, by id or by what they are; and asking before it does something to them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.options import database_option, schema_option
from holdfast.domain.states import FINISHED, JobState

if TYPE_CHECKING:
    from holdfast.app import Holdfast
    from holdfast.domain.job import Job

C = TypeVar("C", bound=Callable[..., Any])

ENDED = tuple(state for state in JobState if state in FINISHED)
CANCELLABLE = tuple(state for state in JobState if state not in FINISHED and state is not JobState.CANCELLING)

MANY = 1000
"""How many jobs one command changes at most, unless --limit says otherwise."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the jobs have in common."""

    state: str | None = None
    queue: str | None = None
    task: str | None = None
    tags: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.state or self.queue or self.task or self.tags)

    def find(self, app: Holdfast, limit: int) -> list[Job]:
        """The jobs to which all of it applies."""
        found = app.jobs.list(state=self.state, queue=self.queue, task=self.task, tags=self.tags, limit=limit)
        return [each.job for each in found]

    def find_in(self, states: Iterable[JobState], app: Holdfast, limit: int) -> list[Job]:
        """The jobs to which all of it applies; in one of these states, if it names none."""
        if self.state is not None:
            return self.find(app, limit)
        found: list[Job] = []
        for state in states:
            if len(found) < limit:
                found += replace(self, state=state.value).find(app, limit - len(found))
        return found


state_option = click.option(
    "--state", type=click.Choice([state.value for state in JobState], case_sensitive=False)
)
queue_option = click.option("--queue", help="Only jobs of this queue.")
task_option = click.option("--task", help="Only jobs of this task.")
tag_option = click.option("--tag", "tags", multiple=True, help="Only jobs with this tag; can be repeated.")
json_option = click.option("--json", "as_json", is_flag=True, help="One line of JSON for each job.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def limit_option(default: int) -> Callable[[C], C]:
    return click.option(
        "--limit",
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help="At most so many jobs.",
    )


def database_options(command: C) -> C:
    """Which installation: --dsn and --schema."""
    return database_option(schema_option(command))


@contextmanager
def opened(database_url: str | None, schema: str) -> Generator[Holdfast]:
    """An app without tasks, to look after the jobs of any."""
    from holdfast.app import Holdfast

    with Holdfast(database_url, schema=schema) as app:
        yield app


def chosen(
    app: Holdfast, job_ids: Sequence[str], wanted: Wanted, states: Iterable[JobState], limit: int
) -> list[str]:
    """The ids a command means: those named, or those of the jobs it describes that are in such a state."""
    if job_ids and wanted:
        raise click.UsageError(
            "name jobs, or say which are meant by --state, --queue, --task, --tag: not both"
        )
    if job_ids:
        return list(dict.fromkeys(job_ids))
    if not wanted:
        raise click.UsageError(
            "name jobs by their ids, or say which are meant by --state, --queue, --task, --tag"
        )
    return [job.job_id for job in wanted.find_in(states, app, limit)]


def ask(what: str, count: int, *, yes: bool) -> None:
    """Say how many jobs it is about, and go on only with a yes."""
    jobs = "1 job" if count == 1 else f"{count} jobs"
    click.echo(f"{jobs} to {what}.", err=True)
    if yes:
        return
    try:
        if click.confirm(f"Really {what} {jobs}?", err=True):
            return
    except click.Abort:
        click.echo(err=True)
    raise click.ClickException("nothing was done (--yes answers the question)")
