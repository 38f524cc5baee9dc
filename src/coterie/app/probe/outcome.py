"""What a probe found out, step by step, and the sentence that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Step = Literal["start", "turn", "tool", "permission", "interrupt", "resume"]
STEPS: tuple[Step, ...] = ("start", "turn", "tool", "permission", "interrupt", "resume")


@dataclass(frozen=True)
class Tried:
    """One step of a probe."""

    step: Step
    outcome: Literal["ok", "failed", "not tried"]
    detail: str
    """In a sentence: what was seen, or what went wrong."""
    ms: int = 0


@dataclass(frozen=True)
class Probed:
    """What one CLI, in one version, can do."""

    name: str
    version: str | None
    tested: str | None
    """The version that our own tests run; None for a program that is not known by name."""
    steps: tuple[Tried, ...]
    install: str | None = None

    @property
    def ok(self) -> bool:
        """Whether everything worked."""
        return not self.failures

    @property
    def failures(self) -> tuple[Tried, ...]:
        """The steps that did not work."""
        return tuple(tried for tried in self.steps if tried.outcome == "failed")

    @property
    def message(self) -> str | None:
        """What is wrong with this version, in a sentence; None when nothing is."""
        if self.ok:
            return None
        at = ", ".join(f'"{tried.step}"' for tried in self.failures)
        who = f"{self.name} {self.version or '(unknown version)'}"
        if self.tested and self.version != self.tested:
            return f"{who} is untested (tested: {self.tested}) and failed the probe at {at}."
        return f"{who} failed the probe at {at}."

    @property
    def hint(self) -> str | None:
        """How to come by a version that works, where that may help."""
        return None if self.ok or self.version == self.tested else self.install
