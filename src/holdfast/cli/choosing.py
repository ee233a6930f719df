"""Which jobs a command means, by id or by a query; and asking before it does something to them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.options import database_option, schema_option
from holdfast.domain.search import Field, Matches, Query, Text, parse
from holdfast.domain.states import JobState

if TYPE_CHECKING:
    from holdfast.app import Holdfast

C = TypeVar("C", bound=Callable[..., Any])

MANY = 1000
"""How many jobs one command changes at most, unless --limit or --all says otherwise."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the jobs have in common: options, and a query."""

    state: str | None = None
    queue: str | None = None
    task: str | None = None
    tags: Sequence[str] = ()
    text: str = ""

    @property
    def query(self) -> Query:
        """All of it as one query; raise QueryError."""
        terms = [
            Matches(field, (Text(value),))
            for field, value in (
                (Field.STATE, self.state and self.state.upper()),
                (Field.QUEUE, self.queue),
                (Field.TASK, self.task),
                *((Field.TAG, tag) for tag in self.tags),
            )
            if value
        ]
        return Query((*terms, *parse(self.text).terms))

    def __bool__(self) -> bool:
        return bool(self.state or self.queue or self.task or self.tags or self.text.strip())


state_option = click.option(
    "--state", type=click.Choice([state.value for state in JobState], case_sensitive=False)
)
queue_option = click.option("--queue", help="Only jobs of this queue.")
task_option = click.option("--task", help="Only jobs of this task.")
tag_option = click.option("--tag", "tags", multiple=True, help="Only jobs with this tag; can be repeated.")
query_option = click.option(
    "--query",
    "-q",
    "text",
    default="",
    metavar="QUERY",
    help="Only jobs that match, as in 'state:DEAD age>1h'.",
)
query_argument = click.argument("words", nargs=-1, metavar="[QUERY]...")
json_option = click.option("--json", "as_json", is_flag=True, help="One line of JSON for each job.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say which jobs it would be, and do nothing.")
after_option = click.option("--after", metavar="PLACE", help="Go on from where another list ended.")


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


def named_or_described(job_ids: Sequence[str], wanted: Wanted, how: str) -> list[str]:
    """The ids that were named; none if jobs are described instead. One of both is needed."""
    if bool(job_ids) == bool(wanted):
        both = "not both" if job_ids else "nothing was said"
        raise click.UsageError(f"name jobs by their ids, or say which are meant by {how}: {both}")
    return list(dict.fromkeys(job_ids))


def jobs_in_words(count: int, *, at_least: bool = False) -> str:
    return "1 job" if count == 1 and not at_least else f"{count:,}{'+' if at_least else ''} jobs"


def confirm(question: str, *, yes: bool) -> None:
    """Go on only with a yes."""
    if yes:
        return
    try:
        if click.confirm(question, err=True):
            return
    except click.Abort:
        click.echo(err=True)
    raise click.ClickException("nothing was done (--yes answers the question)")


def ask(what: str, count: int, *, yes: bool) -> None:
    """Say how many jobs it is about, and go on only with a yes."""
    jobs = jobs_in_words(count)
    click.echo(f"{jobs} to {what}.", err=True)
    confirm(f"Really {what} {jobs}?", yes=yes)
