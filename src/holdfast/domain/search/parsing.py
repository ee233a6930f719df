"""Reading a query. What is wrong is a QueryError that names the piece, its place, and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from holdfast.domain.search import lengths
from holdfast.domain.search.terms import (
    AGES,
    Argument,
    Compares,
    Comparison,
    Field,
    Matches,
    Measure,
    Query,
    Term,
    Text,
    Word,
)
from holdfast.domain.states import JobState, Status
from holdfast.errors import QueryError

MOST_CHARACTERS: Final = 2000
MOST_TERMS: Final = 30

_SPACE: Final = re.compile(r"\s*")
_NAME: Final = re.compile(r"([A-Za-z_][^\s:<>=\",]*)(:|>=|<=|>|<|=)")
_BARE: Final = re.compile(r'[^\s,"]+')
_WORD: Final = re.compile(r'[^\s"]+')
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_WHOLE: Final = re.compile(r"-?\d{1,9}", re.ASCII)
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")

_ALIASES: Final = {"created": "age", "ended": "finished", "tags": "tag", "singleton": "key"}
_NAMES: Final = (*Field, *Measure, *_ALIASES)
_WORDS_OF: Final[dict[Field, tuple[str, ...]]] = {
    Field.STATE: tuple(JobState),
    Field.STATUS: tuple(Status),
}


def parse(text: str) -> Query:
    """The query this text says; raise QueryError."""
    if len(text) > MOST_CHARACTERS:
        raise QueryError(
            f"the query has {len(text):,} characters, and at most {MOST_CHARACTERS:,} are read", text[:20], 0
        )
    if found := _UNSTORABLE.search(text):
        raise QueryError(
            f"at character {found.start() + 1}: U+{ord(found[0]):04X} is in no job, leave it out",
            found[0],
            found.start(),
        )
    return Query(tuple(_Reader(text).terms()))


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._began = 0

    def terms(self) -> Iterable[Term]:
        count = 0
        while self._skip_space():
            count += 1
            if count > MOST_TERMS:
                raise self._trouble(f"a query has at most {MOST_TERMS} terms")
            yield self._term()

    def _skip_space(self) -> bool:
        found = _SPACE.match(self._text, self._place)
        self._place = self._began = found.end() if found else self._place
        return self._place < len(self._text)

    def _term(self) -> Term:
        negated = self._text[self._place] == "-"
        self._place += negated
        named = _NAME.match(self._text, self._place)
        if named is None:
            return Word(self._word(), negated)
        self._place = named.end()
        return self._of(named[1], named[2], negated)

    def _of(self, name: str, sign: str, negated: bool) -> Term:
        first, dot, rest = name.partition(".")
        known = _ALIASES.get(first.lower(), first.lower())
        if known == "args":
            return self._argument(dot, rest, sign, negated)
        if not dot and known in tuple(Field):
            self._refuse_comparing(first, sign)
            return Matches(Field(known), self._values(Field(known)), negated)
        if not dot and known in tuple(Measure):
            return self._comparison(Measure(known), sign, negated)
        raise self._trouble(_unknown(name))

    def _argument(self, dot: str, rest: str, sign: str, negated: bool) -> Argument:
        path = tuple(rest.split("."))
        if not dot or not all(path):
            raise self._trouble("say which argument is meant, as in args.user:42 or args.0:42")
        self._refuse_comparing(f"args.{rest}", sign)
        return Argument(path, self._values(None), negated)

    def _refuse_comparing(self, name: str, sign: str) -> None:
        if sign not in (":", "="):
            numbers = ", ".join(Measure)
            raise self._trouble(
                f"{name} cannot be compared by {sign}: write {name}:… (numbers are {numbers})"
            )

    def _values(self, field: Field | None) -> tuple[Text, ...]:
        values = [self._value(field)]
        while self._text.startswith(",", self._place):
            self._place += 1
            values.append(self._value(field))
        if self._place < len(self._text) and not self._text[self._place].isspace():
            raise self._trouble("put a space behind the closing quote")
        return tuple(dict.fromkeys(values))

    def _value(self, field: Field | None) -> Text:
        value = self._quoted() or self._bare(_BARE)
        if value is None or not value.text:
            raise self._trouble('a value is missing here; write "two words" in quotes')
        words = _WORDS_OF.get(field) if field else None
        if words is None:
            return value
        word = value.text.upper()
        if word not in words:
            near = get_close_matches(word, words, 1)
            raise self._trouble(
                f'"{value.text}" is no {field}; {_did_you_mean(near)}they are: {", ".join(words)}'
            )
        return Text(word)

    def _comparison(self, measure: Measure, sign: str, negated: bool) -> Compares:
        how = Comparison(":" if sign == "=" else sign)
        value = self._bare(_WORD)
        if measure in AGES:
            amount = None if value is None else lengths.read(value.text)
            if amount is None:
                raise self._trouble(f"write a duration behind it, as in {measure}>90s, 5m, 1h30m, 2d")
            if how is Comparison.EQUAL:
                raise self._trouble(f"no job is that old to the millisecond: write {measure}> or {measure}<")
            return Compares(measure, how, amount, negated)
        if value is None or not _WHOLE.fullmatch(value.text):
            raise self._trouble(f"write a whole number behind it, as in {measure}>=3")
        return Compares(measure, how, int(value.text), negated)

    def _word(self) -> Text:
        quoted = self._quoted()
        if quoted is not None and self._place < len(self._text) and not self._text[self._place].isspace():
            raise self._trouble("put a space behind the closing quote")
        word = quoted or self._bare(_WORD)
        if word is None or not word.text:
            raise self._trouble('a word is missing here; write "-" in quotes to look for a sign')
        if quoted is None and self._text.startswith('"', self._place):
            raise self._trouble('a quote stands within a word: quote all of it, and write \\" for " in it')
        return word

    def _quoted(self) -> Text | None:
        if not self._text.startswith('"', self._place):
            return None
        found = _QUOTED.match(self._text, self._place)
        if found is None:
            raise self._trouble("the quote is never closed")
        self._place = found.end()
        return Text(re.sub(r'\\(["\\])', r"\1", found[1]))

    def _bare(self, kind: re.Pattern[str]) -> Text | None:
        found = kind.match(self._text, self._place)
        if found is None:
            return None
        self._place = found.end()
        return Text(found[0], glob="*" in found[0])

    def _trouble(self, what: str) -> QueryError:
        piece = re.match(r"\S{0,60}", self._text[self._began :])
        shown = piece[0] if piece else ""
        return QueryError(f'at character {self._began + 1}, "{shown}": {what}', shown, self._began)


def _unknown(name: str) -> str:
    near = get_close_matches(name.lower(), _NAMES, 1)
    listed = ", ".join((*Field, *Measure))
    return (
        f'there is no field "{name}"; {_did_you_mean(near)}fields are {listed} and args.…; '
        "put it in quotes to look for the words themselves"
    )


def _did_you_mean(near: list[str]) -> str:
    return f"did you mean {near[0]}? " if near else ""
