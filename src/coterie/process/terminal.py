"""A pseudo-terminal for agents that want one: no echo, nothing mangled, nothing too long."""

from __future__ import annotations

import os
import termios

ROWS, COLUMNS = 50, 200
END_OF_FILE = b"\x04"
LONGEST_PIECE = 1024
"""A terminal's line buffer holds 4,095 bytes and silently drops the rest of a longer line."""


def open_terminal() -> tuple[int, int]:
    """Our end and the child's end of a new pseudo-terminal.

    Lines are still put together by the kernel (ICANON), because only then can the end of the
    input be told; all that would change what is sent or printed is off.
    """
    ours, theirs = os.openpty()
    mode = termios.tcgetattr(theirs)
    mode[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP | termios.IXON)
    mode[1] &= ~termios.OPOST
    mode[3] &= ~(termios.ECHO | termios.ECHONL | termios.ISIG | termios.IEXTEN)
    mode[3] |= termios.ICANON
    nothing = os.fpathconf(theirs, "PC_VDISABLE").to_bytes(1, "little", signed=False)
    for key in (termios.VERASE, termios.VKILL, termios.VEOL, termios.VEOL2):
        mode[6][key] = nothing
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
    return ours, theirs


def typed(data: bytes) -> bytes:
    """The bytes to write so that a program that reads lines gets exactly `data`.

    A ^D in the middle of a line hands over what there is of it without ending anything, which
    is how a line gets to be longer than the kernel's buffer; so one in the text is left out.
    """
    lines = data.replace(END_OF_FILE, b"").split(b"\n")
    return b"\n".join(_in_pieces(line) for line in lines)


def _in_pieces(line: bytes) -> bytes:
    starts = range(0, len(line), LONGEST_PIECE)
    return END_OF_FILE.join(line[at : at + LONGEST_PIECE] for at in starts)
