"""The OpenAPI 3.1 document of the server's resources, with every problem they may answer with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from coterie.web.problems import MEDIA_TYPE, Problem

_SIGN_IN = "/api/v1/session"
_SECURITY: Mapping[str, object] = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The token in the server's token file.",
    },
    "session": {"type": "apiKey", "in": "cookie", "name": "coterie_session"},
}
_ALWAYS = (401, 403, 429, 503)
"""No valid credentials, forbidden origin, too many requests, database locked elsewhere."""
_NAMED = (404, 409)
"""What the path names does not exist, or does not allow the request in its current state."""


def describe(application: FastAPI) -> None:
    """Have the application's OpenAPI document list every problem that resources answer with."""

    def document() -> dict[str, Any]:
        if not application.openapi_schema:
            application.openapi_schema = _document(application)
        return application.openapi_schema

    application.openapi = document


def _document(application: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=application.title,
        version=application.version,
        openapi_version="3.1.0",
        description=application.description,
        routes=application.routes,
        separate_input_output_schemas=True,
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Problem"] = Problem.model_json_schema()
    document["components"]["securitySchemes"] = dict(_SECURITY)
    document["security"] = [{name: []} for name in _SECURITY]
    for path, method, operation in _operations(document):
        operation["responses"].pop("422", None)
        for status in _problems(path, method, operation):
            operation["responses"].setdefault(str(status), _problem(status))
        operation["responses"] = dict(sorted(operation["responses"].items()))
        if path == _SIGN_IN and method == "post":
            operation["security"] = []
    return document


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, cast("dict[str, Any]", operation)


def _problems(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[int]:
    """Yield the statuses of the problems that an operation may answer with."""
    yield from _ALWAYS
    has_body = "requestBody" in operation
    if has_body or operation.get("parameters"):
        yield 422
    if has_body:
        yield from (400, 413)
    if "{" in path or any(one["name"] == "project" for one in operation.get("parameters", ())):
        yield from _NAMED
    if method != "get" and path != _SIGN_IN:
        yield from (409, 507)  # conflict with the current state; disk full


def _problem(status: int) -> dict[str, object]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": schema}},
    }
