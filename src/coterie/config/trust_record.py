"""What the user has reviewed and then trusted or declined: a file in the user's own folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, cast

from coterie.config.files import locked, read_document, set_aside, write_atomically
from coterie.config.project import coterie_home
from coterie.errors import ConfigError
from coterie.model.workspace import shown

TRUSTED_FILE = "trusted.json"
Decision = Literal["trusted", "declined"]


def record_trust(
    key: str, path_shown: str, now: str, home: Path | None, *, kind: Decision = "trusted"
) -> None:
    """Record the user's decision about what the key stands for."""
    path = (home or coterie_home()) / TRUSTED_FILE
    with locked(path):
        try:
            known = _read(path)
        except ConfigError:
            set_aside(path)
            known = {}
        for entries in known.values():
            entries.pop(key, None)
        known.setdefault(kind, {})[key] = {"path": path_shown, f"{kind}At": now}
        write_atomically(path, json.dumps(known, indent=2) + "\n")


def is_trusted(key: str, home: Path | None = None, *, kind: Decision = "trusted") -> bool:
    """Whether this decision was recorded; a damaged record counts as empty."""
    return bool(trust_entry(key, home, kind=kind))


def trust_entry(key: str, home: Path | None, *, kind: Decision = "trusted") -> dict[str, object]:
    """What was recorded about it; empty if nothing was, or the record is damaged."""
    try:
        entry = _read((home or coterie_home()) / TRUSTED_FILE).get(kind, {}).get(key)
    except ConfigError:
        return {}
    return cast("dict[str, object]", entry) if isinstance(entry, dict) else {}


def _read(path: Path) -> dict[str, dict[str, object]]:
    if not path.exists():
        return {}
    data = read_document(path).data
    record = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    if not isinstance(record.get("trusted", {}), dict) or not record:
        raise ConfigError(f"{shown(path)} is not a valid trust record.", None, str(path))
    return {
        kind: cast("dict[str, object]", entries)
        for kind, entries in record.items()
        if isinstance(entries, dict)
    }


def trust_material(root: Path, now: str, home: Path | None = None) -> None:
    """Record that a folder's own instruction files may be passed to models as text."""
    record_trust(_material(root), str(root), now, home)


def decline_material(root: Path, now: str, home: Path | None = None) -> None:
    """Record that they may not, so that the user is not asked again."""
    record_trust(_material(root), str(root), now, home, kind="declined")


def is_material_decided(root: Path, home: Path | None = None) -> bool:
    """Whether the user has decided about this folder's instruction files."""
    key = _material(root)
    return is_trusted(key, home) or is_trusted(key, home, kind="declined")


def is_material_trusted(root: Path, home: Path | None = None) -> bool:
    """Whether the user has trusted this folder's instruction files."""
    return is_trusted(_material(root), home)


def _material(root: Path) -> str:
    return f"material:{root.resolve()}"
