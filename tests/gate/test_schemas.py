import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from adkwire.gate.schemas import field_problems, mistake, problem

PLACE: dict[str, Any] = {
    "type": "object",
    "properties": {"latitude": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["latitude"],
}


@pytest.mark.parametrize("value", [{"latitude": 5}, {"latitude": 5.5, "tags": ["a"]}, {"latitude": 0, "more": None}])
def test_a_value_that_fits_has_no_problem(value: object) -> None:
    assert problem(value, PLACE) is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "'latitude' is a required property"),
        ({"latitude": "5"}, "latitude: '5' is not of type 'number'"),
        ({"latitude": True}, "latitude: True is not of type 'number'"),
        ({"latitude": 5, "tags": ["a", 1]}, "tags[1]: 1 is not of type 'string'"),
        (None, "None is not of type 'object'"),
        ("line\nbreak", "'line\\nbreak' is not of type 'object'"),
    ],
)
def test_the_first_problem_has_its_place(value: object, message: str) -> None:
    assert problem(value, PLACE) == message


def test_without_a_schema_everything_fits() -> None:
    assert problem({"any": "thing"}, None) is None
    assert problem({"any": "thing"}, {}) is None


def test_true_is_not_one() -> None:
    assert problem(1, {"enum": [0, 1]}) is None
    assert problem(1.0, {"enum": [0, 1]}) is None
    assert problem(True, {"enum": [0, 1]}) == "True is not one of [0, 1]"


def test_a_problem_with_a_large_value_still_says_what_it_is() -> None:
    message = problem("x" * 100_000, {"type": "integer"})
    assert message is not None
    assert len(message) < 300
    assert message.endswith("is not of type 'integer'")


def test_a_value_of_many_lines_is_quoted_in_one_line() -> None:
    message = problem({"a": 1}, {"properties": {"a": {"enum": ["x\n\ny"]}}})
    assert message == "a: 1 is not one of ['x\\n\\ny']"


UNUSABLE: list[Any] = [
    {"type": "STRING"},
    {"type": 5},
    {"pattern": "("},
    {"$ref": "#/$defs/missing"},
    {"$ref": "#"},
    {"enum": {1, 2}},
    {"properties": {"a": 1}},
]


@pytest.mark.parametrize("schema", UNUSABLE)
def test_an_unusable_schema_takes_nothing_and_raises_nothing(schema: dict[str, Any]) -> None:
    message = problem("text", schema)
    assert message
    assert "\n" not in message


def test_a_value_may_be_nested_as_deeply_as_it_likes() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert problem(value, {"type": "string"}) == "it is nested too deeply"
    assert problem(value, {"type": "array", "items": {"$ref": "#"}}) == "it is nested too deeply"


def test_a_number_may_be_as_large_as_it_likes() -> None:
    for value, schema in ((10**400, {"multipleOf": 0.01}), (10**5000, {"type": "string"})):
        assert (problem(value, schema) or "").startswith("it cannot be checked: ")


def test_a_file_is_not_read(tmp_path: Path) -> None:
    (file := tmp_path / "schema.json").write_text("{}")
    message = problem("text", {"$ref": file.as_uri()})
    assert message == f"the schema refers to {file.as_uri()!r}, which is not in it; nothing is fetched"


def test_nothing_is_fetched() -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/schema.json"
        message = [problem("text", {key: url}) for key in ("$ref", "$dynamicRef")]
        server.shutdown()
        thread.join()
    assert all(one and "nothing is fetched" in one for one in message)
    assert asked == []


def test_a_mistake_in_a_schema_has_its_place() -> None:
    assert mistake(PLACE) is None
    assert mistake({"properties": {"a": {"type": "text"}}}) == (
        "properties.a.type: 'text' is not valid under any of the given schemas"
    )
    assert (mistake({"enum": {1}}) or "").startswith("it is not JSON: ")


def test_the_import_is_light() -> None:
    code = "import sys, adkwire.gate.schemas; sys.exit('jsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"latitude": 5}, []),
        ({}, [("/in/latitude", "'latitude' is a required property")]),
        (
            {"latitude": "5", "tags": ["a", 1]},
            [("/in/latitude", "'5' is not of type 'number'"), ("/in/tags/1", "1 is not of type 'string'")],
        ),
        (None, [("/in", "None is not of type 'object'")]),
    ],
)
def test_every_field_is_told_of_by_its_pointer(value: object, told: list[tuple[str, str]]) -> None:
    assert field_problems(value, PLACE, "/in") == told


def test_a_pointer_escapes_what_means_something_in_it() -> None:
    schema = {"properties": {"a/b~c": {"type": "string"}}, "required": ["it's", "other"]}
    pointers = [field.pointer for field in field_problems({"a/b~c": 1}, schema, "")]
    assert pointers == ["/a~1b~0c", "/it's", "/other"]


def test_only_so_many_fields_are_told_of() -> None:
    found = field_problems(["x" * 1000] * 50, {"items": {"type": "integer"}}, "")
    assert len(found) == 20
    assert max(len(field.message) for field in found) < 300


@pytest.mark.parametrize("schema", [None, {"type": 5}, {"$ref": "https://example.com/schema"}, {"pattern": "("}])
def test_what_cannot_be_checked_has_no_fields(schema: Any) -> None:
    assert field_problems("text", schema, "") == []
