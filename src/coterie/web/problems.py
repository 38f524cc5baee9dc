"""What went wrong, as RFC 9457 has it: every error of ours, and those of HTTP itself."""

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
)

MEDIA_TYPE = "application/problem+json"

_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
_STATUS: tuple[tuple[type[CoterieError], int], ...] = (
    # The first that fits: an error comes before those it is a kind of.
    (NotFound, 404),
    (NotTrusted, 403),
    (NotOurs, 403),
    (AnswerRefused, 409),
    (UsageError, 409),  # 422 is a request that is not as the API describes it
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
    """What programs know it by: `urn:coterie:problem:not_found`."""
    title: str
    status: int
    detail: str
    hint: str | None = None
    where: str | None = None
    member: str | None = None
    errors: list[dict[str, str]] | None = None
    """Of a request, or of a file, that is not what it should be: each place, and what is wrong."""


def respond(
    status: int,
    detail: str,
    code: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    **more: object,
) -> Response:
    """The answer that says what went wrong."""
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
    """The HTTP status of an error of ours."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def problem_of(error: CoterieError) -> Problem:
    """What an error of ours is on the wire: a whole answer, or a part of one."""
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


def poisons(error: CoterieError) -> bool:
    """Whether a storage refuses every later write after it, so that it must be opened anew."""
    return isinstance(error, LeaseLost | StorageError) and not isinstance(error, StorageLocked)


def _mistakes(error: CoterieError) -> list[dict[str, str]] | None:
    """Each thing that is wrong with a file, by its place in it."""
    if not isinstance(error, ConfigError) or not error.mistakes:
        return None
    return [{"place": one.place, "problem": one.problem} for one in error.mistakes]


def of_error(error: CoterieError) -> Response:
    """The answer where an error of ours ended a request."""
    return _answer(problem_of(error))


class Refused(Exception):
    """A request that is not let in, with the answer."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


async def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, CoterieError)
    if poisons(error) and (project := request.path_params.get("project")):
        request.app.state.hub.renew(project)
    return of_error(error)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error.response


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, Refused):  # while the body was read
        return error.__cause__.response
    said = str(error.detail)
    if error.status_code == 404 and said == "Not Found":
        said = "There is nothing at this address."
    headers = error.headers
    if error.status_code == 405:
        said = f"{request.method} is not for this address."
        headers = {"allow": ", ".join(_allowed(request))}
    return respond(error.status_code, said, headers=headers)


def _allowed(request: Request) -> list[str]:
    """Every method of an address: the router names those of one resource alone."""
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
    said = "; ".join(f"{one['place']}: {one['problem']}" for one in errors)
    return respond(422, f"The request is not what it should be: {said}.", "invalid", errors=errors)


async def _bug(request: Request, error: Exception) -> Response:
    said = f"{type(error).__name__} (this is a bug in Coterie); the server's terminal shows more."
    return respond(500, said, "bug")


def install(application: FastAPI) -> None:
    """Have the application answer with problems."""
    application.add_exception_handler(CoterieError, _ours)
    application.add_exception_handler(Refused, _refused)
    application.add_exception_handler(HTTPException, _of_http)
    application.add_exception_handler(RequestValidationError, _of_request)
    application.add_exception_handler(Exception, _bug)


ANSWERS: dict[int | str, dict[str, object]] = {
    status: {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status in (400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 503, 507)
}
"""For OpenAPI: with what every resource may answer besides."""
