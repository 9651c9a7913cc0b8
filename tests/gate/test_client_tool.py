import builtins
import enum
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Optional, cast

import pytest
from google.adk.agents import LlmAgent
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from adkwire.errors import ConfigError
from adkwire.gate.client_tool import ClientTool, client_tool
from adkwire.gate.schemas import mistake, problem
from adkwire.testing import Call, Say, ScriptedModel
from tests.testing.agent_session import AgentSession, calls, results, texts

NO_CONTEXT = cast("ToolContext", None)
"""For conditions that do not look at it."""
OBJECT: dict[str, Any] = {"type": "object", "properties": {"track": {"type": "integer"}}, "required": ["track"]}


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(TypedDict):
    latitude: float
    name: NotRequired[str]


@dataclass
class Box:
    width: int
    height: int = 3


class Order(BaseModel):
    box: Box
    tags: list[str] = []


@client_tool
def rich(
    schema: str,
    track: Literal[0, 1],
    color: Color = Color.RED,
    note: Optional[str] = None,  # noqa: UP045 - people write it so
    order: Order | None = None,
    places: list[Place] = [],  # noqa: B006 - never called
    volume: Annotated[int, Field(ge=1, description="How loud.")] = 1,
) -> Place:
    """Do something in the page.

    It takes a while.

    Args:
        schema: The schema of it
            all: as a text.
        track (int): Which one.
        volume: Not this text.
        unheard: No such parameter.

    Returns:
        Where it was done.
    """
    raise NotImplementedError


def test_the_declaration_is_plain() -> None:
    declaration = rich._get_declaration()  # pyright: ignore[reportPrivateUsage]
    assert rich.name == declaration.name == "rich"
    assert declaration.description == (
        "Do something in the page.\n\nIt takes a while.\n\nReturns:\n    Where it was done."
    )
    assert declaration.parameters_json_schema == rich.parameters
    assert declaration.behavior is None
    assert rich.is_long_running


def test_parameters_become_a_schema() -> None:
    properties = rich.parameters["properties"]
    assert rich.parameters["required"] == ["schema", "track"]
    assert properties == {
        "schema": {"type": "string", "description": "The schema of it all: as a text."},
        "track": {"type": "integer", "enum": [0, 1], "description": "Which one."},
        "color": {"$ref": "#/$defs/Color", "default": "red"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "order": {"anyOf": [{"$ref": "#/$defs/Order"}, {"type": "null"}], "default": None},
        "places": {"type": "array", "items": {"$ref": "#/$defs/Place"}, "default": []},
        "volume": {"type": "integer", "minimum": 1, "description": "How loud.", "default": 1},
    }
    assert set(rich.parameters["$defs"]) == {"Box", "Color", "Order", "Place"}
    assert mistake(rich.parameters) is None


@pytest.mark.parametrize(
    ("args", "fits"),
    [
        ({"schema": "s", "track": 1}, True),
        ({"schema": "s", "track": 1, "order": {"box": {"width": 1}}, "color": "blue"}, True),
        ({"schema": "s", "track": 1, "places": [{"latitude": 5}]}, True),
        ({"schema": "s", "track": 2}, False),
        ({"schema": "s"}, False),
        ({"schema": "s", "track": 1, "order": {"box": {}}}, False),
        ({"schema": "s", "track": 1, "color": "green"}, False),
        ({"schema": "s", "track": 1, "places": [{"name": "here"}]}, False),
    ],
)
def test_arguments_are_held_against_the_schema(args: dict[str, Any], fits: bool) -> None:
    assert (problem(args, rich.parameters) is None) is fits


def test_the_return_annotation_is_the_schema_of_the_output() -> None:
    assert problem({"latitude": 5}, rich.output) is None
    assert problem({"latitude": "north"}, rich.output)
    assert problem({"name": "here"}, rich.output)


def _returning(annotation: Any) -> ClientTool:
    def tool() -> Any:
        """A tool."""

    tool.__annotations__["return"] = annotation
    return client_tool(tool)


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        (Box, {"width": 1}, {}),
        (Order, {"box": {"width": 1}}, {"box": 1}),
        (dict[str, int], {"a": 1}, {"a": "1"}),
        (list[str], ["a"], "a"),
        (Place | str, "nowhere", 5),
        (bool, True, 1),
    ],
)
def test_outputs_of_many_types(annotation: Any, right: object, wrong: object) -> None:
    output = _returning(annotation).output
    assert problem(right, output) is None
    assert problem(wrong, output)


@pytest.mark.parametrize("annotation", [None, Any])
def test_an_output_of_no_type_may_be_anything(annotation: Any) -> None:
    assert _returning(annotation).output is None


def test_a_tool_without_parameters_declares_none() -> None:
    tool = _returning(None)
    assert tool.parameters == {"type": "object", "properties": {}}
    assert tool._get_declaration().parameters_json_schema is None  # pyright: ignore[reportPrivateUsage]


def test_a_declaration_can_be_changed_without_changing_the_tool() -> None:
    tool = ClientTool("play", "Play a track.", OBJECT)
    schema: Any = tool._get_declaration().parameters_json_schema  # pyright: ignore[reportPrivateUsage]
    schema["properties"].clear()
    assert tool.parameters == OBJECT
    assert tool.parameters is not OBJECT


def only_doc() -> int:  # pyright: ignore[reportReturnType]
    """A tool."""


def dots() -> int:
    """A tool."""
    ...  # noqa: PIE790


def passing() -> int:  # pyright: ignore[reportReturnType]
    """A tool."""
    pass  # noqa: PIE790


def several() -> int:  # pyright: ignore[reportReturnType]
    """A tool."""
    pass  # noqa: PIE790
    ...  # noqa: PIE790
    pass  # noqa: PIE790


def raising() -> int:
    """A tool."""
    raise NotImplementedError


def raising_with_words(amount: int = 5) -> int:
    """A tool."""
    raise NotImplementedError("runs in the browser")


async def asynchronous(amount: int) -> int:
    """A tool."""
    raise NotImplementedError()


async def asynchronous_dots() -> int:
    """A tool."""
    ...  # noqa: PIE790


EMPTY = [only_doc, dots, passing, several, raising, raising_with_words, asynchronous, asynchronous_dots]


@pytest.mark.parametrize("function", EMPTY)
def test_a_body_may_be_left_out_in_many_ways(function: Callable[..., Any]) -> None:
    assert client_tool(function).name == function.__name__


def returns_a_value() -> int:
    """A tool."""
    return 5


def returns_its_argument(amount: int) -> int:
    """A tool."""
    return amount


def raises_another() -> int:
    """A tool."""
    raise RuntimeError


def calls_something() -> int:
    """A tool."""
    print()
    raise NotImplementedError


async def awaits(amount: int) -> int:
    """A tool."""
    return await asynchronous(amount)


def generates() -> Any:
    """A tool."""
    yield 1


BODIES = [returns_a_value, returns_its_argument, raises_another, calls_something, awaits, generates]


@pytest.mark.parametrize("function", BODIES)
def test_a_body_that_does_something_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="has a body, but it runs in the browser"):
        client_tool(function)


def test_a_body_is_found_without_its_source() -> None:
    scope: dict[str, Any] = {}
    exec('def done() -> int:\n    "Doc."\n    return 1\ndef empty() -> int:\n    "Doc."', scope)
    assert client_tool(scope["empty"]).name == "empty"
    with pytest.raises(ConfigError, match=r"@client_tool done \(<string>:1\) has a body"):
        client_tool(scope["done"])


def no_doc() -> int: ...


def no_return():  # pyright: ignore[reportUnknownParameterType]
    """A tool."""


def no_annotation(amount) -> int:  # type: ignore[no-untyped-def] # pyright: ignore
    """A tool."""


def many(*amounts: int) -> int:  # pyright: ignore[reportReturnType]
    """A tool."""


def any_names(**amounts: int) -> int:  # pyright: ignore[reportReturnType]
    """A tool."""


def with_context(tool_context: int) -> int:  # pyright: ignore[reportReturnType]
    """A tool."""


def with_typed_context(context: ToolContext) -> int:  # pyright: ignore[reportReturnType]
    """A tool."""


def unreadable(amount: "Missing") -> int:  # noqa: F821 # pyright: ignore
    """A tool."""


def wrong_default(amount: int = None) -> int:  # noqa: RUF013 # pyright: ignore
    """A tool."""


def no_json(amount: builtins.type) -> int:  # pyright: ignore
    """A tool."""


def no_schema(chat: AgentSession) -> int:  # pyright: ignore[reportReturnType]
    """A tool."""


def no_output() -> AgentSession:  # pyright: ignore[reportReturnType]
    """A tool."""


def no_json_output() -> Callable[[], int]:  # pyright: ignore[reportReturnType]
    """A tool."""


MISTAKES: list[tuple[Callable[..., Any], str]] = [
    (no_doc, "needs a docstring"),
    (no_return, "needs a return annotation"),
    (no_annotation, "needs an annotation for the parameter amount"),
    (many, r"has the parameter \*amounts: int"),
    (any_names, r"has the parameter \*\*amounts: int"),
    (with_context, "the browser has no tool context: leave it out"),
    (with_typed_context, "has the parameter context, but the browser has no tool context"),
    (unreadable, "has an annotation that cannot be read: name 'Missing' is not defined"),
    (wrong_default, "has a default for amount that does not fit its annotation: None"),
    (no_json, "has a parameter whose type JSON does not know: Cannot generate"),
    (no_schema, r"cannot be used for the parameter chat: Unable to generate pydantic-core schema for <class '[\w.]+'>"),
    (no_output, "cannot be used for the return value"),
    (no_json_output, "has a return type that JSON does not know"),
]


@pytest.mark.parametrize(("function", "message"), MISTAKES, ids=[function.__name__ for function, _ in MISTAKES])
def test_the_error_of_a_mistake_names_its_place(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        client_tool(function)
    line = function.__code__.co_firstlineno
    assert str(caught.value).startswith(f"@client_tool {function.__name__} ({__file__}:{line}) ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("thing", [print, Box, rich])
def test_only_a_plain_function_can_be_decorated(thing: Any) -> None:
    with pytest.raises(ConfigError, match="belongs on a plain function"):
        client_tool(thing)


def test_a_tool_cannot_be_called() -> None:
    with pytest.raises(TypeError, match=r"rich\(\) runs in the browser .* LlmAgent\(tools=\[rich\]\)"):
        rich("s", track=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("play a track", "Play.", OBJECT), "a name has up to 64 letters"),
        (("x" * 65, "Play.", OBJECT), "a name has up to 64 letters"),
        (("play", " ", OBJECT), "needs a description"),
        (("play", "Play.", {"type": "string"}), 'must be a JSON schema with "type": "object"'),
        (("play", "Play.", {"type": "object", "properties": 5}), "parameters is no valid JSON schema: properties: 5"),
        (("play", "Play.", OBJECT, {"type": "text"}), "output is no valid JSON schema: type: 'text'"),
    ],
)
def test_a_tool_of_schemas_is_checked(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ClientTool(*arguments)


async def test_adk_itself_never_asks() -> None:
    tool = ClientTool("play", "Play.", OBJECT, require_confirmation=True)
    assert await tool.asks({"track": 1}, NO_CONTEXT)
    assert not await tool.check_require_confirmation({"track": 1}, NO_CONTEXT)
    assert not await ClientTool("play", "Play.", OBJECT).asks({"track": 1}, NO_CONTEXT)


def by_track(track: int) -> bool:
    return track == 1


async def by_track_later(track: int) -> bool:
    return track == 1


def by_all(track: int, **more: Any) -> bool:
    return track == 1 and more == {"volume": 3}


def by_context(tool_context: ToolContext, track: int) -> bool:
    return tool_context is NO_CONTEXT and track == 1


@pytest.mark.parametrize("condition", [by_track, by_track_later, by_all, by_context])
async def test_a_condition_sees_the_arguments_and_the_defaults(condition: Callable[..., bool]) -> None:
    @client_tool(require_confirmation=condition)
    def play(track: int = 0, volume: int = 3) -> None:
        """Play a track."""

    assert not await play.asks({}, NO_CONTEXT)
    assert await play.asks({"track": 1}, NO_CONTEXT)


async def test_a_condition_that_fails_asks(caplog: pytest.LogCaptureFixture) -> None:
    tool = ClientTool("play", "Play.", OBJECT, require_confirmation=by_track)
    with caplog.at_level(logging.WARNING):
        assert await tool.asks({}, NO_CONTEXT)
    assert "require_confirmation of play failed; the person is asked" in caplog.text


@client_tool
async def where() -> Place:
    """Find out where the user is."""
    raise NotImplementedError


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent(*turns: list[Any]) -> LlmAgent:
    play = ClientTool("play", "Play.", OBJECT, require_confirmation=True)
    return LlmAgent(name="test", model=ScriptedModel(turns=turns), tools=[where, play, add])


def answer(call: types.FunctionCall, output: dict[str, Any]) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=output))


@pytest.mark.parametrize("call", [Call("where"), Call("play", {"track": 1})])
async def test_a_run_pauses_at_a_call_and_goes_on_with_the_output(call: Call) -> None:
    session = AgentSession(agent([call], [Say("Thanks.")]), resumable=True)
    paused = await session.say("go")
    [asked] = calls(paused)
    assert asked.name == call.name
    assert [event.long_running_tool_ids for event in paused if not event.partial and event.get_function_calls()] == [
        {asked.id}
    ]
    assert results(paused) == []
    assert texts(paused) == []
    assert texts(await session.say(answer(asked, {"latitude": 5}))) == ["Thanks."]


async def test_a_run_waits_for_the_browser_beside_a_server_tool() -> None:
    session = AgentSession(agent([Call("where"), Call("add", {"a": 1, "b": 2})], [Say("Both.")]), resumable=True)
    paused = await session.say("go")
    assert [result.name for result in results(paused)] == ["add"]
    assert texts(paused) == []
    assert texts(await session.say(answer(calls(paused)[0], {"latitude": 5}))) == ["Both."]
    model = session.runner.agent.model  # type: ignore[union-attr] # pyright: ignore
    assert isinstance(model, ScriptedModel)
    given = [part.function_response for content in model.requests[1] for part in content.parts or []]
    assert {one.name: one.response for one in given if one} == {"where": {"latitude": 5}, "add": {"result": 3}}
