"""The shipped JSON Schemas.  `python -m coterie.app.schemas` writes them, `--check` compares."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from coterie.agents.table import KNOWN_AGENTS
from coterie.config.schemas import FOLDER, schemas
from coterie.errors import NotFound

_SUFFIX = ".schema.json"


def shipped(name: str) -> dict[str, object]:
    """Return the schema of a kind of file; raises NotFound if there is none of that name."""
    known = {path.name.removesuffix(_SUFFIX): path for path in FOLDER.rglob(f"*{_SUFFIX}")}
    if name not in known:
        raise NotFound(f'No schema "{name}". There are: {", ".join(sorted(known))}.')
    return cast("dict[str, object]", json.loads(known[name].read_text(encoding="utf-8")))


def differing() -> Mapping[Path, str]:
    """Return the shipped schemas that differ from the models, with the text they should have."""
    generated = schemas(KNOWN_AGENTS.isolating(None)).items()
    texts = {
        FOLDER / f"{name}{_SUFFIX}": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in generated
    }
    return {
        path: text
        for path, text in texts.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }


def main(arguments: Sequence[str]) -> int:
    """Write the schemas, or with `--check` only compare them."""
    if not set(arguments) <= {"--check", "--write"} or len(arguments) > 1:
        print("usage: python -m coterie.app.schemas [--check | --write]", file=sys.stderr)
        return 2
    wrong = differing()
    for path, text in wrong.items():
        if "--check" in arguments:
            print(f"{path.name} is not what the models say; run: make schemas", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.name}")
    return 1 if wrong and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
