"""A program that posts JSON to an address; imports nothing from Coterie.

Reads stdin: the address on the first line, then the body.  A separate program because a DNS lookup
cannot be interrupted in any other way; on stdin because webhook addresses are secrets, and every
user of the machine can see the arguments of a process.
"""

from __future__ import annotations

import http.client
import sys
import urllib.error
import urllib.request
from typing import IO
from urllib.parse import urlsplit

TIMEOUT = 8.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow no redirects: the notification is only for the address that the user named."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


def post(address: str, body: bytes) -> str:
    """Post the body; return what went wrong, or an empty text.  Never includes the address."""
    headers = {"Content-Type": "application/json", "User-Agent": "coterie"}
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if urlsplit(address).hostname in _LOOPBACK:
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        request = urllib.request.Request(address, body, headers, method="POST")  # noqa: S310
        opener = urllib.request.build_opener(*handlers)
        with opener.open(request, timeout=TIMEOUT):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        moved = ", and redirects are not followed" if 300 <= error.code < 400 else ""
        return f"the server answered {error.code}{moved}"
    except urllib.error.URLError as error:
        return str(error.reason)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}".replace(address, "the address")


def main() -> int:
    """Post the request read from stdin."""
    address, _, body = sys.stdin.buffer.read().partition(b"\n")
    problem = post(address.decode(), body)
    sys.stderr.write(problem)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
