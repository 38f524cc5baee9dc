"""Secrets: what is never written, and how it is taken out of what is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

REDACTED = "[redacted]"
_SHORTEST = 8
"""A shorter value is no secret, and would be found in half of all words."""

_KNOWN = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\bsk-[A-Za-z0-9_-]{20,}"
    r"|\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{30,}"
    r"|\bglpat-[A-Za-z0-9_-]{20,}|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{30,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[A-Za-z0-9_-]{35}|\bya29\.[A-Za-z0-9_-]{20,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
    r"|(?<=://)[^/\s:@]{1,64}:[^/\s@]{4,}(?=@)"
    r"|(?<=[Bb]earer )[A-Za-z0-9._~+/-]{16,}=*",
    re.DOTALL,
)
"""What keys of well-known services look like."""
_HINTS = {
    "_": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "npm_"),
    "-": ("-----BEGIN", "sk-", "glpat-", "pypi-"),
    "": ("AKIA", "AIza", "ya29.", "xox", "eyJ", "://", "earer "),
}
"""One of them stands in each of those; by a character that is looked for first."""


class Redactor:
    """Takes known secrets, and what looks like one, out of texts."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({one for one in secrets if len(one) >= _SHORTEST}, key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """The text without secrets."""
        if len(text) < _SHORTEST:
            return text
        if self._secrets is not None:
            text = self._secrets.sub(REDACTED, text)
        # Most texts hold none of the hints, and looking for those costs next to nothing.
        for character, hints in _HINTS.items():
            if character in text:
                for hint in hints:
                    if hint in text:
                        return _KNOWN.sub(REDACTED, text)
        return text

    def value(self, value: object) -> object:
        """JSON data without secrets, also where one is a key."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self.mapping(cast("Mapping[str, object]", value))
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return [self.value(one) for one in cast("Sequence[object]", value)]
        return value

    def mapping(self, given: Mapping[str, object]) -> dict[str, object]:
        """An object without secrets."""
        return {self.text(str(key)): self.value(one) for key, one in given.items()}
