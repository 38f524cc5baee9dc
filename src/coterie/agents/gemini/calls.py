"""How Gemini CLI 0.61 describes its tool calls: never with their input, mostly in a title.

It sends nothing about a call before it asks, and nothing after a no.
"""

from __future__ import annotations

import re

from coterie.agents.acp.calls import AcpCall
from coterie.agents.fields import ANYWHERE, searched

_NAME_IN_ID = re.compile(r"([a-z]\w*?)__")
"""The name of a tool is only in the id of the call."""
_IN = re.compile(r"\[in ([^\[\]]+)\].*", re.DOTALL)
"""Another folder is mentioned only in the text about a command."""
_REASON = re.compile(r"\[(?:in|current working directory) [^\]]*\]\s*(?:\((?P<why>.*)\))?.*", re.S)
"""The reason for a command follows its folder."""
_SEARCH = re.compile(
    r"'(?P<pattern>[^']*)'"
    r"(?: in (?P<files>[^\s']+))?"
    r"(?: within (?P<folder>(?:(?! within )[^'*?!|()\[\]{}])+))?"
)
"""The title of a search.  The model chooses every part of it, so a text that could be read in two
ways does not match: it must not make one folder look like another."""
_SHORTENED = "..."
_SURE = 31
"""A longer path in a title may be the end of another one."""


class GeminiCall(AcpCall):
    """A tool call of Gemini."""

    @property
    def name(self) -> str:
        return self._name_in_id or super().name

    @property
    def why(self) -> str:
        reason = _REASON.fullmatch(self.description)
        return (reason["why"] or "") if reason else self.description

    @property
    def folder(self) -> str:
        mention = _IN.fullmatch(self.description)
        return mention[1] if mention else ""

    @property
    def kind(self) -> str:
        return "fetch" if self._name_in_id == "google_web_search" else super().kind

    @property
    def searched(self) -> str:
        """The folder that it searches, where its title proves that; otherwise any."""
        if self.name == "list_directory":
            return _sure(self.title)
        title = _SEARCH.fullmatch(self.title)
        if title is None or self.name not in ("glob", "grep_search"):
            return ANYWHERE
        leading = title["pattern"] if self.name == "glob" else title["files"]
        return searched(_sure(title["folder"] or "."), leading or "")

    @property
    def _name_in_id(self) -> str:
        match = _NAME_IN_ID.match(self.id)
        return match[1] if match else ""


def _sure(folder: str) -> str:
    shortened = _SHORTENED in folder or len(folder) > _SURE
    return ANYWHERE if shortened or not folder else folder
