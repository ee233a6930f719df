"""Draw docs/reference/cli.md: `python -m holdfast.cli.reference`. What is written by hand is in cli.in.md."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from holdfast.cli import COMMANDS, exits, main

WRITTEN = Path(__file__).parents[3] / "docs" / "reference" / "cli.in.md"

FIELDS = {
    "id": "its id",
    "state": "where it stands: any of the eleven states",
    "status": "whether it could run now: READY, PAUSED, CRASH_CONCERN …",
    "queue": "the line it stands in",
    "task": "what it asks for",
    "tag": "one of its tags",
    "error": "somewhere in its last error, whatever the case",
    "worker": "who held it last",
    "key": "its singleton key",
    "args.NAME": "an argument by name (`args.user`), deeper down (`args.to.name`) or by place (`args.0`)",
    "age": "since it was created, with `<` `<=` `>` `>=`: 90s, 5m, 1h30m, 2d",
    "finished": "since it ended, likewise",
    "attempts": "how often it failed, a number, also with `:`",
    "priority": "a number, likewise",
}
"""Every field of a query and what it means."""


def render(written: str | None = None) -> str:
    """The page."""
    from holdfast.console.bulk import CHUNK
    from holdfast.console.search import MOST_COUNTED, MOST_LOOKED

    parts = {
        "exit codes": _table(("code", "means"), {str(code): says for code, says in exits.MEANING.items()}),
        "fields": _table(("field", "the job's"), {f"`{name}`": says for name, says in FIELDS.items()}),
        "looked": f"{MOST_LOOKED:,}",
        "counted": f"{MOST_COUNTED:,}",
        "chunk": f"{CHUNK}",
        "commands": "\n\n".join(_commands()),
    }
    page = WRITTEN.read_text(encoding="utf-8") if written is None else written
    return re.sub(r"\{\{([\w ]+)\}\}", lambda found: parts[found[1]], page)


def _commands() -> Iterator[str]:
    for name in sorted(COMMANDS):
        command = main.get_command(click.Context(main), name)
        if command is not None:
            yield from _helps(command, f"holdfast {name}")


def _helps(command: click.Command, called: str) -> Iterator[str]:
    """A command from its parts, not from click's own page, which changes from release to release."""
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    options = [each for each in command.params if isinstance(each, click.Option)]
    usage = " ".join([called, *(_named(each) for each in arguments), *(["[OPTIONS]"] if options else [])])
    if not isinstance(command, click.Group):
        parts = [f"### {called}", f"    {usage}", _prose(command.help or "")]
        if options:
            parts.append(_table(("option", ""), {_option(each): _about(each) for each in options}))
        yield "\n\n".join(parts)
        return
    yield f"### {called}\n\n{_prose(command.help or '')}"
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        if inner is not None:
            yield from _helps(inner, f"{called} {name}")


def _named(argument: click.Argument) -> str:
    name = (argument.metavar or str(argument.name).upper()).strip("[].")
    name += "..." if argument.nargs == -1 else ""
    return name if argument.required else f"[{name}]"


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if option.is_flag:
        return names
    if isinstance(option.type, click.Choice):
        choices = [str(choice) for choice in option.type.choices]
        return f"{names} {' '.join(choices) if len(choices) < 6 else str(option.name).upper()}"
    return f"{names} {option.metavar or _KINDS.get(option.type.name, option.type.name.upper())}"


_KINDS = {"integer": "N", "integer range": "N", "float": "NUMBER", "float range": "NUMBER"}


def _about(option: click.Option) -> str:
    said = [option.help or ""]
    if isinstance(option.show_default, str):
        said.append(f"Default: {option.show_default}.")
    elif option.show_default and option.default is not None:
        said.append(f"Default: {option.default}.")
    if isinstance(option.envvar, str) and option.show_envvar:
        said.append(f"`{option.envvar}` says it too.")
    return " ".join(part for part in said if part).replace("|", "\\|")


def _prose(text: str) -> str:
    """What a command says about itself; examples, which click marks, as blocks."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        "\n".join(f"    {line.strip()}" for line in paragraph.splitlines()[1:])
        if paragraph.startswith("\b")
        else paragraph.replace("<", "\\<")
        for paragraph in paragraphs
    )


def _table(heading: tuple[str, str], rows: dict[str, str]) -> str:
    lines = [heading, ("---", "---"), *rows.items()]
    return "\n".join(f"| {first} | {second} |" for first, second in lines)


if __name__ == "__main__":
    sys.stdout.write(render())
