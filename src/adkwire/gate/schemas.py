"""Checks against JSON schemas (draft 2020-12), which never fetch anything."""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from adkwire.errors import FieldProblem

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

_MAX_FIELDS = 20
"""Fields of a value that are told of at once."""
_HEAD, _TAIL = 160, 120
"""Characters that are kept of a message's beginning and end. It quotes the value, of any size, in the middle."""


def problem(value: object, schema: Mapping[str, Any] | None) -> str | None:
    """Return in one line the first thing that is wrong with a value; None if nothing is, or without a schema.

    A schema that cannot be used accepts nothing: that is returned as a problem, too, and never raised.
    """
    if schema is None:
        return None
    from jsonschema import SchemaError
    from referencing.exceptions import Unresolvable

    try:
        return _first(value, _validator(json.dumps(schema)))
    except SchemaError as error:
        return _line(f"the schema is wrong: {error.message}")
    except Unresolvable as error:
        return _line(f"the schema refers to {error.ref!r}, which is not in it; nothing is fetched")
    except RecursionError:
        return "it is nested too deeply"
    except (re.error, ArithmeticError, TypeError, ValueError) as error:
        return _line(f"it cannot be checked: {error}")


def field_problems(value: object, schema: Mapping[str, Any] | None, pointer: str) -> list[FieldProblem]:
    """Return what is wrong with each field of a value that has the JSON pointer `pointer`, for a form to show.

    There is nothing to return for a value that cannot be checked: `problem` says why.
    """
    if schema is None or problem(value, schema) is None:
        return []
    try:
        errors = list(islice(_errors(value, _validator(json.dumps(schema))), _MAX_FIELDS))
    except Exception:  # noqa: BLE001 - `problem` has a text for whatever makes a schema useless
        return []
    return [FieldProblem(pointer + _pointer(error), _line(error.message)) for error in errors]


def mistake(schema: Mapping[str, Any]) -> str | None:
    """Return in one line what is wrong with a schema itself; None if nothing is."""
    from jsonschema import SchemaError

    try:
        _validator(json.dumps(schema))
    except SchemaError as error:
        return _line(_at(error.json_path, error.message))
    except (TypeError, ValueError) as error:
        return _line(f"it is not JSON: {error}")
    return None


@functools.lru_cache(maxsize=256)
def _validator(schema: str) -> "Draft202012Validator":
    # Imported here because it takes longer to load than the rest of the gate.
    from jsonschema import Draft202012Validator
    from referencing import Registry

    parsed = json.loads(schema)
    Draft202012Validator.check_schema(parsed)
    # An empty registry retrieves nothing; the default one opens URLs and files.
    registry: Registry[Any] = Registry()
    return Draft202012Validator(parsed, registry=registry)


def _errors(value: Any, validator: "Draft202012Validator") -> "Iterator[ValidationError]":
    return validator.iter_errors(value)  # pyright: ignore[reportUnknownMemberType]


def _pointer(error: "ValidationError") -> str:
    """Return the JSON pointer of the field that an error is about; for a missing one, where it would be."""
    required: Any = error.validator_value if error.validator == "required" else ()
    missing = [name for name in required if error.message == f"{name!r} is a required property"]
    return json_pointer(*error.absolute_path, *missing[:1])


def json_pointer(*path: str | int) -> str:
    """Return a path as a JSON pointer."""
    return "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in path)


def _first(value: Any, validator: "Draft202012Validator") -> str | None:
    error = next(_errors(value, validator), None)
    return None if error is None else _line(_at(error.json_path, error.message))


def _at(path: str, message: str) -> str:
    place = path.removeprefix("$").removeprefix(".")
    return f"{place}: {message}" if place else message


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _HEAD + _TAIL else f"{line[:_HEAD]}…{line[-_TAIL:]}"
