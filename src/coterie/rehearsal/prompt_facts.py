"""What a stand-in for a model learns from a prompt: its goal, files and people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from zlib import crc32


def any_case(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile a case-insensitive pattern."""
    return re.compile(pattern, re.IGNORECASE | flags)


_GOAL = any_case(
    r"^[^\n:]*\b(?:goal|wants?|task|request|asked for)\b[^\n:]*:[ \t]*\n*(?P<goal>[^\n]+)",
    re.MULTILINE,
)
_PATH = re.compile(r"(?<![\w/.@:-])(?:[\w-]+/)*[\w-][\w.-]*\.[A-Za-z]\w{0,7}\b(?![/@])")
_NO_FILE = any_case(r"(?:e\.g|i\.e|a\.m|p\.m|www\..*|.*\.(?:com|org|net|io))")
_BULLET = re.compile(r"^[ \t]*[-*][ \t]+(?P<text>.*)$", re.MULTILINE)
_WRITING = any_case(
    rf"(?:(?:add|change|create|edit|make|update|write)\s+)?`?{_PATH.pattern}`?\.?\s*"
)
"""A step or output that does nothing but name a file."""
_PEOPLE = any_case(
    r"^[^\n]*\b(?:workers?|members?|roles?)\b[^\n]*:[ \t]*\n(?P<list>(?:[ \t]*[-*] [^\n]*\n?)+)",
    re.MULTILINE,
)
_PERSON = re.compile(r"^[ \t]*[-*] (?P<id>[A-Za-z0-9][\w.#-]*)[ \t]*(?::|$)", re.MULTILINE)
_TICKET = any_case(r"\bticket (?P<id>[A-Za-z]+\d+)\b")
_WISH = re.compile(r"\bsays: (?P<wish>[^\n]+)")
_WANTED = re.compile(r"^[^\n:]*\buser wants\b[^\n:]*:[ \t]*(?P<goal>\S[^\n]*)", re.MULTILINE)
"""How a prompt states the outcome of questions to the user."""
_WORD = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{1,2}|[^\W_]+"
)
"""A word; in scripts written without spaces, up to two characters."""
_CLEAR = 3
_MOST_FILES, _MOST_PARTS, _SLUG, _QUOTED = 4, 4, 28, 60


@dataclass(frozen=True)
class Part:
    """One part of a goal."""

    id: str
    description: str
    file: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromptFacts:
    """What a prompt is about, as far as a stand-in can tell."""

    goal: str
    files: tuple[str, ...] = ()
    """The files named in a list, or else anywhere in the prompt."""
    people: tuple[str, ...] = ()
    """Who may be assigned work."""
    ticket: str = ""
    wish: str = ""
    """A requested change to an earlier answer."""
    trouble: str = ""
    """Why the request could not be carried out."""
    question: str = ""
    """A question that only the user can answer."""

    @classmethod
    def of(cls, prompt: str) -> PromptFacts:
        """Extract the facts of a prompt, from which the shape of the answer has been removed."""
        bullets = [match["text"] for match in _BULLET.finditer(prompt)]
        steps = [text for text in bullets if _WRITING.fullmatch(text)]
        listed = files_in("\n".join(steps or bullets))
        people = _PEOPLE.search(prompt)
        ticket, wish = _TICKET.search(prompt), _WISH.search(prompt)
        return cls(
            goal=_goal(prompt),
            files=(listed or files_in(prompt))[:_MOST_FILES],
            people=tuple(_PERSON.findall(people["list"])) if people else (),
            ticket=ticket["id"] if ticket else "",
            wish=wish["wish"].strip() if wish else "",
        )

    def asking(self, question: str, prompt: str) -> PromptFacts:
        """Return a copy with the question, or with its answer in the goal if the prompt has one."""
        wanted = _WANTED.search(prompt)
        if wanted:
            return replace(self, goal=wanted["goal"].strip())
        answer = re.search(rf"{re.escape(question)}(?: Answer:)? (?P<said>\S[^\n]*)", prompt)
        if answer:
            return replace(self, goal=f"{self.goal}: {answer['said'].strip()}")
        # Once there are tickets, the question has already been asked.
        return self if self.ticket else replace(self, question=question)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files to write: the named ones (unknown types get a `.md`), else a new one."""
        named = tuple(one if comment(one) else f"{one}.md" for one in self.files)
        of_ticket = f"{self.ticket.lower()}-" if self.ticket else ""
        return named or (f"{of_ticket}{slug(self.goal)}.md",)

    def parts(self) -> tuple[Part, ...]:
        """Split the goal into two to four parts with a file each; the last checks the others."""
        titled = [(slug(piece), piece) for piece in _pieces(self.goal)] or [
            ("outline", f"Outline: {self.goal}"),
            ("work", f"Work out: {self.goal}"),
        ]
        if self.wish:
            titled.append((slug(self.wish), self.wish))
        *first, last = [*titled[: _MOST_PARTS - 1], ("check", f"Check what was done: {self.goal}")]
        names = list(_unique(name for name, _ in first))
        folder, used = slug(self.goal), set[str]()
        parts: list[Part] = []
        for name, (_, text) in zip(names, first, strict=True):
            own = [one for one in files_in(text) if one not in used and comment(one)]
            file = own[0] if own else f"{folder}/{name}.md"
            used.add(file)
            parts.append(Part(name, text, file))
        return (*parts, Part(*last, f"{folder}/{last[0]}.md", tuple(names)))


def clarifying_question(goal: str) -> str:
    """Return the question to ask about an unclear goal; empty if the goal is clear.

    A goal is unclear if it ends with a question mark, or has one or two words and names no file.
    """
    is_question = goal.rstrip().endswith(("?", "\uff1f"))
    if not is_question and (files_in(goal) or len(_WORD.findall(goal)) >= _CLEAR):
        return ""
    line = " ".join(goal.split())
    short = line if len(line) <= _QUOTED else f"{line[: _QUOTED - 1]}…"
    return f"What should be different once “{short}” is done, and in which files?"


def _goal(prompt: str) -> str:
    match = _GOAL.search(prompt)
    if match:
        return match["goal"].strip()
    for paragraph in prompt.split("\n\n"):
        line = " ".join(paragraph.split())
        if line and not line.startswith("You are ") and not line.endswith(":"):
            return line
    return " ".join(prompt.split())


def files_in(text: str) -> tuple[str, ...]:
    """The files that a text names, each once."""
    paths = (match[0] for match in _PATH.finditer(text))
    return tuple(dict.fromkeys(one for one in paths if not _NO_FILE.fullmatch(one)))


def _pieces(goal: str) -> list[str]:
    """Return the parts that a goal itself lists, if it lists at least two."""
    for between in (r"\s*[;\n]\s*", r"\s*,\s*(?:and\s+)?|\s+and\s+"):
        pieces = [piece.strip(" .!-*") for piece in re.split(between, goal)]
        pieces = [piece for piece in pieces if len(piece) > 1]
        if len(pieces) > 1:
            first = pieces[: _MOST_PARTS - 2]
            rest = pieces[_MOST_PARTS - 2 :]
            return [*first, "; ".join(rest)] if rest else first
    return []


def slug(text: str) -> str:
    """Derive a short name for files and ids from a text in any language."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    short = "-".join(words)[:_SLUG].strip("-")
    return short or f"goal-{crc32(text.encode(errors='replace')):08x}"


def _unique(names: Iterable[str]) -> Iterator[str]:
    seen: dict[str, int] = {"check": 1}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}-{seen[name]}"


_COMMENTS = {
    "{}": "md txt rst adoc",
    "# {}": "py sh bash rb pl yml yaml toml cfg ini r jl dockerfile",
    "// {}": "js jsx mjs ts tsx go rs java kt swift c h cc cpp hpp cs php scala dart",
    "-- {}": "sql lua hs",
    "/* {} */": "css scss",
    "<!-- {} -->": "html htm xml svg vue",
}


def comment(file: str) -> str:
    """Return the comment syntax for a file as a format string; empty if it is unknown."""
    ending = file.rpartition(".")[2].lower()
    return next((form for form, known in _COMMENTS.items() if ending in known.split()), "")
