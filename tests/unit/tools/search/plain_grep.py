"""What plain grep finds for a question, used in several ways."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from coterie.tools.search.passages import stop_words

Found = Mapping[str, Counter[str]]
"""For each file, how often each word of the question occurs."""


def texts(package: Path) -> dict[str, str]:
    """Return every source file in lower case, as grep -i would see it."""
    return {
        str(path.relative_to(package)): path.read_text().lower() for path in package.rglob("*.py")
    }


def ranks(files: Mapping[str, str], question: str, targets: frozenset[str]) -> dict[str, int]:
    """Return the rank of the first right file for each way of using grep.

    `luckiest word` greps for the word that ranks the right file best, which only somebody who
    knows the answer could choose: an upper bound, not a strategy.
    """
    every = re.findall(r"[a-z0-9]+", question.lower())
    words = [word for word in dict.fromkeys(every) if word not in stop_words()]
    found = {
        path: Counter({word: text.count(word) for word in words}) for path, text in files.items()
    }
    spread = {word: sum(counts[word] > 0 for counts in found.values()) for word in words}
    rarest = min((word for word in words if spread[word]), key=lambda word: spread[word])
    return {
        "most words": _rank(
            found,
            lambda path: (sum(count > 0 for count in found[path].values()), found[path].total()),
            targets,
        ),
        "most hits": _rank(found, lambda path: (found[path].total(),), targets),
        "rarest word": _rank(found, lambda path: (found[path][rarest],), targets),
        "luckiest word": min(
            _rank(found, lambda path, word=word: (found[path][word],), targets) for word in words
        ),
    }


def _rank(found: Found, way: Callable[[str], tuple[float, ...]], targets: frozenset[str]) -> int:
    """Order ties by path, as grep shows them, and leave out files without hits."""
    hits = sorted((path for path in found if any(way(path))), key=lambda path: path)
    ordered = sorted(hits, key=way, reverse=True)
    places = [place for place, path in enumerate(ordered, 1) if path in targets]
    return min(places, default=len(found) + 1)
