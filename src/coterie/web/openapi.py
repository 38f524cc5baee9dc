"""The OpenAPI document of the server: `python -m coterie.web.openapi` prints it.

The same code always yields the same text, so that files generated from it can be compared.
"""

from __future__ import annotations

import json

from coterie.web.application import bare_application


def document() -> str:
    """Return the document as text."""
    return json.dumps(bare_application().openapi(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(document(), end="")
