"""Prompts and replies over a child's stdin and stdout, and how the end of a reply is detected."""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncGenerator, Callable, Collection
from dataclasses import dataclass
from typing import Self

import anyio
import anyio.lowlevel
import anyio.to_thread

from coterie.model.update import Activity, TextDelta, TurnCompleted, TurnFailed, Update
from coterie.process.child import Child
from coterie.process.streams import LineSplitter, clean, parse_object, text_of

TEXT_FIELDS = ("result", "text", "content", "message")


class DetectorFailed(Exception):
    """A detector, which is third-party code, failed on a line."""


@dataclass(frozen=True)
class CompletionStrategy:
    """A way to detect the end of a reply.  Lines are judged one by one, regardless of content."""

    ended_by: Callable[[str], str | None]
    """Returns what a line adds to the reply if it ends the reply; None if it does not."""
    silence: float | None = None
    """The reply is complete after this many seconds without output; None: silence is ignored."""
    prints_reply: bool = True
    """Whether the output is the reply itself, or only describes it."""

    @classmethod
    def json_event(cls, types: Collection[str], text_field: str | None = None) -> Self:
        """End at a JSON line of one of these types; the reply is in one of its fields."""
        names = (text_field, *TEXT_FIELDS) if text_field else TEXT_FIELDS

        def ended_by(line: str) -> str | None:
            event = parse_object(line)
            kind = None if event is None else event.get("type")
            if event is None or not isinstance(kind, str) or kind not in types:
                return None
            texts = (text_of(event.get(name)) for name in names)
            return next((text for text in texts if text is not None), "")

        return cls(ended_by, prints_reply=False)

    @classmethod
    def after_silence(cls, milliseconds: int) -> Self:
        """End when nothing has been printed for a while, counted from the prompt."""
        return cls(lambda line: None, silence=milliseconds / 1000)

    @classmethod
    def detector(cls, detect: Callable[[str], str | bool | None]) -> Self:
        """End at a line that a detector recognizes.

        It returns True (the line is the last of the reply), a string (which replaces the line), or
        False or None (the reply continues).
        """

        def ended_by(line: str) -> str | None:
            try:
                detected = detect(line)
            except Exception as error:
                raise DetectorFailed(f"its detector failed: {error!r}") from error
            if isinstance(detected, str):
                return detected
            return line if detected else None

        return cls(ended_by)

    @classmethod
    def pattern(cls, expression: str) -> Self:
        """End at a line that matches a regular expression; of it, a group named `text` is kept."""
        compiled = re.compile(expression)

        def detect(line: str) -> str | bool:
            match = compiled.search(line)
            if match is None or "text" not in compiled.groupindex:
                return match is not None
            return match["text"] or ""

        return cls.detector(detect)


LONGEST_REPLY = 64 * 1024 * 1024
BIG_LINE = 256 * 1024
"""Longer lines are judged in a thread: decoding and parsing would block the loop noticeably."""


ReplyEnd = TurnCompleted | TurnFailed


class StdioTurns:
    """The turns of one child, one at a time.

    What a child prints before its first prompt is part of the first turn, though it can end only a
    one-shot turn.  What it prints between two turns is dropped, including the rest of an unfinished
    line: it belongs to no turn.
    """

    def __init__(self, child: Child, strategy: CompletionStrategy, *, one_shot: bool) -> None:
        self._child = child
        self._strategy = strategy
        self._one_shot = one_shot
        self._lines = LineSplitter()
        self._fresh = True
        self._reply = _Reply()
        self._deadline = float("inf")
        self._waiting: anyio.CancelScope | None = None

    @property
    def text(self) -> str:
        """The part of the reply printed so far."""
        return self._reply.text

    async def take(self, prompt: bytes, total: float) -> AsyncGenerator[Update]:
        """Send a prompt; yield output as it arrives and, finally, exactly one outcome."""
        self._reply = _Reply()
        outcome: ReplyEnd | None = None
        self._deadline = anyio.current_time() + total  # an interrupt from here on brings it forward
        early = await self._make_ready()
        if not (self._one_shot or self._child.alive):
            yield self._exited(await self._child.exit())
            return
        self._child.post(prompt + b"\n")
        if self._one_shot:
            self._child.close_stdin()
        heard_at = anyio.current_time()
        try:
            for chunk in early:
                await self._read(chunk, may_end=False)
                yield self._newest()
            while outcome is None:
                chunk = await self._next_chunk(heard_at)
                if chunk:
                    heard_at = anyio.current_time()
                    outcome = await self._read(chunk, may_end=True)
                    yield self._newest()
                else:
                    outcome = await self._without_output(chunk, heard_at, total)
            yield outcome
        finally:
            self._child.divert(self._ignore)

    def break_off(self, within: float) -> None:
        """Make the running turn end within this many seconds at the latest."""
        self._deadline = min(self._deadline, anyio.current_time() + within)
        if self._waiting is not None:
            self._waiting.deadline = min(self._waiting.deadline, self._deadline)

    def _newest(self) -> TextDelta | Activity:
        newest = self._reply.newest
        return TextDelta(newest) if newest else Activity()

    async def _make_ready(self) -> list[bytes]:
        """Separate the output so far from the output that follows the prompt."""
        if self._fresh and self._one_shot:
            self._fresh = False
            return []
        # Two iterations of the event loop, in which it reads what is already in the pipe.
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        if self._fresh:
            self._fresh = False
            return self._child.pending()
        self._child.divert(None)
        self._lines.discard_partial()
        return []

    def _ignore(self, chunk: bytes) -> None:
        self._lines.feed(chunk)
        self._lines.discard_partial()

    async def _next_chunk(self, heard_at: float) -> bytes | None:
        """The next chunk of output; empty at its end, None if a time limit has passed."""
        with anyio.CancelScope(deadline=self._limit(heard_at)) as self._waiting:
            return await self._child.receive()
        return None

    def _limit(self, heard_at: float) -> float:
        silence = self._strategy.silence
        return self._deadline if silence is None else min(self._deadline, heard_at + silence)

    async def _read(self, chunk: bytes, *, may_end: bool) -> ReplyEnd | None:
        if self._strategy.silence is not None:
            self._reply.add_bytes(chunk)
            return None
        self._reply.newest = ""
        for line in self._lines.feed(chunk):
            if (outcome := await self._judge(line, may_end=may_end)) is not None:
                return outcome
        return None

    async def _judge(self, line: bytes, *, may_end: bool) -> ReplyEnd | None:
        """Judge whether a line ends the reply; otherwise add it if it is part of the reply."""
        try:
            if len(line) > BIG_LINE:
                text, last = await anyio.to_thread.run_sync(self._parse, line)
            else:
                text, last = self._parse(line)
        except DetectorFailed as problem:
            return TurnFailed("protocol", str(problem), retry=False)
        if last is not None and may_end:
            if not self._strategy.prints_reply:
                return TurnCompleted(last)
            self._reply.add(last)
            return TurnCompleted(self._reply.text)
        if self._strategy.prints_reply:
            self._reply.add(text + "\n")
        return None

    def _parse(self, line: bytes) -> tuple[str, str | None]:
        text = line.decode("utf-8", "replace")
        return text, self._strategy.ended_by(text)

    async def _without_output(
        self, chunk: bytes | None, heard_at: float, total: float
    ) -> ReplyEnd | None:
        """Handle the absence of output: its end, or a time limit that has passed."""
        if chunk == b"":
            half = self._lines.finish()
            if half is not None and (whole := await self._judge(half, may_end=True)) is not None:
                return whole
            with anyio.CancelScope(deadline=self._limit(heard_at)) as self._waiting:
                return await self._ended()
        if self._strategy.silence is not None and anyio.current_time() < self._deadline:
            return self._completed()
        tail = self._child.stderr_tail
        return TurnFailed("timeout", f"no reply within {total:g} s", stderr_tail=tail)

    async def _ended(self) -> ReplyEnd:
        """The outcome after the agent closed its output, decided by its exit code."""
        code = await self._child.exit()
        if code == 0 and self._strategy.silence is not None:
            return self._completed()
        return self._exited(code)

    def _completed(self) -> TurnCompleted:
        self._reply.finish()
        return TurnCompleted(self._reply.text)

    def _exited(self, code: int) -> TurnFailed:
        message = f"the agent exited with code {code} before finishing its reply"
        return TurnFailed("exit", message, code, self._child.stderr_tail)


class _Reply:
    """The text of a reply as it grows; anything beyond LONGEST_REPLY is dropped."""

    def __init__(self) -> None:
        self.newest = ""
        self._parts: list[str] = []
        self._size = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add_bytes(self, chunk: bytes) -> None:
        self.newest = ""
        self.add(self._decoder.decode(chunk))

    def finish(self) -> None:
        """Flush the decoder; a truncated character at the end is replaced."""
        self.add(self._decoder.decode(b"", final=True))

    def add(self, text: str) -> None:
        kept = clean(text[: LONGEST_REPLY - self._size])
        self._parts.append(kept)
        self._size += len(kept)
        self.newest += kept

    @property
    def text(self) -> str:
        return "".join(self._parts).rstrip("\r\n")
