"""Problems as RFC 9457 defines them: for every `CoterieError`, and for HTTP's own errors."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match

from coterie.errors import (
    AnswerRefused,
    ConfigError,
    CoterieError,
    LeaseLost,
    NotAccepted,
    NotFound,
    NotOurs,
    NotTrusted,
    StorageError,
    StorageFull,
    StorageLocked,
    TaskBusy,
    UsageError,
    stops_writing,
)

MEDIA_TYPE = "application/problem+json"

_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
_STATUS: tuple[tuple[type[CoterieError], int], ...] = (
    # The first match counts: a class comes before its base classes.
    (NotFound, 404),
    (NotTrusted, 403),
    (NotOurs, 403),
    (AnswerRefused, 409),
    (UsageError, 409),  # 422 is for requests that the API's schema does not allow
    (TaskBusy, 409),
    (LeaseLost, 409),
    (NotAccepted, 409),
    (StorageLocked, 503),
    (StorageFull, 507),
    (StorageError, 500),
)


class Problem(BaseModel):
    """What went wrong, and what to do about it."""

    type: str
    """An identifier for programs, such as `urn:coterie:problem:not_found`."""
    title: str
    status: int
    detail: str
    hint: str | None = None
    where: str | None = None
    member: str | None = None
    errors: list[dict[str, str]] | None = None
    """For an invalid request or file: each place in it, and what is wrong there."""


def respond(
    status: int,
    detail: str,
    code: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> Response:
    """Build the response for a problem."""
    title = HTTPStatus(status).phrase
    code = code or title.lower().replace(" ", "_").replace("-", "_")
    problem = Problem.model_validate(
        {
            "type": f"urn:coterie:problem:{code}",
            "title": title,
            "status": status,
            "detail": detail,
            **more,
        }
    )
    return _answer(problem, headers)


def _answer(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    shown = problem.model_dump(exclude_none=True)
    return JSONResponse(shown, problem.status, headers, media_type=MEDIA_TYPE)


def status_of(error: CoterieError) -> int:
    """Return the HTTP status for a `CoterieError`."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def problem_of(error: CoterieError) -> Problem:
    """Convert a `CoterieError` to a problem: a whole response, or part of one."""
    status = status_of(error)
    return Problem(
        type=f"urn:coterie:problem:{error.code}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=str(error),
        hint=error.hint,
        where=error.where,
        member=error.member,
        errors=_mistakes(error),
    )


def _mistakes(error: CoterieError) -> list[dict[str, str]] | None:
    """List the mistakes in a file, each with its place; None for any other error."""
    if not isinstance(error, ConfigError) or not error.mistakes:
        return None
    return [{"place": one.place, "problem": one.problem} for one in error.mistakes]


def of_error(error: CoterieError) -> Response:
    """Build the response for a request that failed with a `CoterieError`."""
    return _answer(problem_of(error))


class Refused(Exception):
    """A request was refused; `response` is what to answer."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


async def _of_coterie(request: Request, error: Exception) -> Response:
    assert isinstance(error, CoterieError)
    if stops_writing(error) and (project := request.path_params.get("project")):
        request.app.state.hub.reopen(project)
    return of_error(error)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error.response


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, Refused):  # raised while reading the body
        return error.__cause__.response
    message = str(error.detail)
    if error.status_code == 404 and message == "Not Found":
        message = "There is nothing at this address."
    headers = error.headers
    if error.status_code == 405:
        message = f"{request.method} is not allowed at this address."
        headers = {"allow": ", ".join(_allowed(request))}
    return respond(error.status_code, message, headers=headers)


def _allowed(request: Request) -> list[str]:
    """List every method of a path: the router names only those of the first route."""
    routes: list[BaseRoute] = request.app.routes
    scopes = {method: {**request.scope, "method": method} for method in _METHODS}
    return [
        method
        for method, scope in scopes.items()
        if any(route.matches(scope)[0] is Match.FULL for route in routes)
    ]


async def _of_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [
        {"place": ".".join(str(part) for part in one["loc"]), "problem": str(one["msg"])}
        for one in error.errors()
    ]
    mistakes = "; ".join(f"{one['place']}: {one['problem']}" for one in errors)
    return respond(422, f"The request is invalid: {mistakes}.", "invalid", errors=errors)


async def _bug(request: Request, error: Exception) -> Response:
    message = f"{type(error).__name__}: a bug in Coterie; see the server's terminal for details."
    return respond(500, message, "bug")


def install(application: FastAPI) -> None:
    """Register the exception handlers that answer with problems."""
    application.add_exception_handler(CoterieError, _of_coterie)
    application.add_exception_handler(Refused, _refused)
    application.add_exception_handler(HTTPException, _of_http)
    application.add_exception_handler(RequestValidationError, _of_request)
    application.add_exception_handler(Exception, _bug)
