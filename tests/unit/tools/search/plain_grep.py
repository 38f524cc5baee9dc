"""What plain grep finds for a question: the best of several ways to use it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from coterie.tools.search.passages import stop_words

Found = Mapping[str, Counter[str]]
"""For each file how often each word of the question is in it."""


def texts(package: Path) -> dict[str, str]:
    """Every source file, in lower case: grep -i."""
    return {
        str(path.relative_to(package)): path.read_text().lower() for path in package.rglob("*.py")
    }


def ranks(files: Mapping[str, str], question: str, targets: frozenset[str]) -> dict[str, int]:
    """The place of the first right file for each way of using grep.

    `luckiest word` greps for the one word that puts the right file first, which only somebody
    who knows the answer could choose: a bound, not a way.
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
    """Files that fare the same are shown by path, as grep shows them; those with nothing, not."""
    hits = sorted((path for path in found if any(way(path))), key=lambda path: path)
    ordered = sorted(hits, key=way, reverse=True)
    places = [place for place, path in enumerate(ordered, 1) if path in targets]
    return min(places, default=len(found) + 1)
