"""Signing in and out: a browser sends the token of the printed URL and gets a cookie."""

from __future__ import annotations

import secrets
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from coterie.web.access import Access

router: APIRouter = APIRouter(tags=["session"])


class SignIn(BaseModel, extra="forbid"):
    """The credentials in the printed URL."""

    token: Annotated[str, Field(max_length=256)]


@router.post("/session", status_code=204, response_class=Response)
async def sign_in(request: Request, given: SignIn) -> Response:
    """Sign this browser in; the only resource that needs no credentials."""
    access = _access(request)
    if not access.sessions.is_token(given.token):
        raise access.failed(request.client.host if request.client else "")
    value = secrets.token_urlsafe(32)
    await anyio.to_thread.run_sync(access.sessions.begin, value)
    return _with_cookie(access, value, access.sessions.LIFETIME)


@router.delete("/session", status_code=204, response_class=Response)
async def sign_out(request: Request) -> Response:
    """Sign this browser out."""

    access = _access(request)
    if value := request.scope["coterie.session"]:
        await anyio.to_thread.run_sync(access.sessions.end, value)
    return _with_cookie(access, "", 0)


def _access(request: Request) -> Access:
    access = request.app.state.access
    assert isinstance(access, Access)
    return access


def _with_cookie(access: Access, value: str, lasts: int) -> Response:
    response = Response(status_code=204)
    response.set_cookie(
        access.cookie,
        value,
        max_age=lasts,
        path="/",
        secure=access.secure,
        httponly=True,
        samesite="strict",
    )
    return response
