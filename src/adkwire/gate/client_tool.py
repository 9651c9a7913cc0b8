"""Browser tools: declared on the server for the model, executed by the page.

A `ClientTool` is a long-running ADK tool that returns nothing: in a resumable app ADK ends the run there and waits
for the function response, which the browser sends.
"""

import copy
import dis
import functools
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import CodeType
from typing import Any, NoReturn, get_type_hints, overload

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from adkwire.errors import ConfigError
from adkwire.gate.schemas import mistake

Schema = Mapping[str, Any]
Confirmation = bool | Callable[..., bool | Awaitable[bool]]

_log = logging.getLogger(__name__)
# What Gemini accepts as the name of a function, and the AI SDK in `tool-<name>`.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


class ClientTool(BaseTool):
    """A tool that runs in the browser, for schemas that are known only at run time; else see `client_tool`.

    `parameters` and `output` are JSON schemas: of the arguments, always an object, and of the browser's output. Without
    `output` any output is accepted. `require_confirmation` is True, or a function of the tool's arguments (and of
    `tool_context`, if it names that) that returns whether a person is asked first.
    """

    def __init__(
        self,
        name: str,
        description: str,
        parameters: Schema,
        output: Schema | None = None,
        require_confirmation: Confirmation = False,
        *,
        _checked: bool = False,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"ClientTool {name!r}: a name has up to 64 letters, digits and _ . - and begins with a letter or _."
            )
        if not description.strip():
            raise ConfigError(f"ClientTool {name} needs a description: it tells the model when to call the tool.")
        if not _checked:
            _check_schemas(name, parameters, output)
        super().__init__(name=name, description=description, is_long_running=True)
        self.parameters: dict[str, Any] = copy.deepcopy(dict(parameters))
        self.output: dict[str, Any] | None = None if output is None else copy.deepcopy(dict(output))
        self.require_confirmation = require_confirmation

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Raise TypeError: the tool cannot be executed on the server."""
        raise TypeError(
            f"{self.name}() runs in the browser and cannot be called here; put it into the tools of an agent: "
            f"LlmAgent(tools=[{self.name}])."
        )

    def _get_declaration(self) -> types.FunctionDeclaration:
        # As ADK's own function tools do: no schema at all when there are no parameters.
        schema = copy.deepcopy(self.parameters) if self.parameters.get("properties") else None
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> None:
        """Return nothing: the browser sends the result."""

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: ToolContext) -> bool:
        """Return False: if ADK asked, it would run the tool after the approval and give the model an empty result."""
        return False

    async def asks(self, args: Mapping[str, Any], tool_context: ToolContext) -> bool:
        """Return whether a person must approve this call before the browser gets it; True if the condition fails."""
        if not callable(self.require_confirmation):
            return self.require_confirmation
        try:
            known = {**self._defaults(), **args, "tool_context": tool_context}
            verdict = self.require_confirmation(**_accepted(self.require_confirmation, known))
            return bool(await verdict if inspect.isawaitable(verdict) else verdict)
        except Exception:  # noqa: BLE001 - a broken condition must not let the call run
            _log.warning("require_confirmation of %s failed; the person is asked", self.name, exc_info=True)
            return True

    def _defaults(self) -> dict[str, Any]:
        properties: Mapping[str, Schema] = self.parameters.get("properties", {})
        return {name: schema["default"] for name, schema in properties.items() if "default" in schema}


@overload
def client_tool(function: Callable[..., Any], /) -> ClientTool: ...
@overload
def client_tool(*, require_confirmation: Confirmation = ...) -> Callable[[Callable[..., Any]], ClientTool]: ...
def client_tool(
    function: Callable[..., Any] | None = None, /, *, require_confirmation: Confirmation = False
) -> ClientTool | Callable[[Callable[..., Any]], ClientTool]:
    """Declare a tool that runs in the browser by a typed, documented function without a body.

        @client_tool(require_confirmation=True)
        def get_location() -> Location:
            \"\"\"Get the position of the user's device.\"\"\"

    The function becomes a `ClientTool` for `LlmAgent(tools=[...])`. Its parameters become the schema that the model
    sees, its return annotation the schema that the browser's output is checked against; `-> None` and `-> Any` take
    any output. A mistake is a `ConfigError` that says where it is.
    """
    if function is None:
        return functools.partial(_declare, require_confirmation=require_confirmation)
    return _declare(function, require_confirmation=require_confirmation)


def _declare(function: Callable[..., Any], *, require_confirmation: Confirmation) -> ClientTool:
    if not inspect.isfunction(function):
        raise ConfigError(f"@client_tool belongs on a plain function, not on {function!r}.")
    where = _Declaration(function.__name__, function.__code__)
    if not _is_empty(function.__code__):
        raise where.error("has a body, but it runs in the browser: leave only the docstring")
    if not (doc := inspect.getdoc(function)):
        raise where.error("needs a docstring: it tells the model when to call the tool")
    description, explained = _split_doc(doc)
    hints = _hints(function, where)
    return ClientTool(
        function.__name__,
        description,
        _parameters(inspect.signature(function), hints, explained, where),
        _output(hints, where),
        require_confirmation,
        _checked=True,
    )


class _Declaration:
    """The name and the place of a decorated function, for error messages."""

    def __init__(self, name: str, code: CodeType) -> None:
        self.text = f"@client_tool {name} ({code.co_filename}:{code.co_firstlineno})"

    def error(self, what: str) -> ConfigError:
        return ConfigError(f"{self.text} {what}.")


def _check_schemas(name: str, parameters: Schema, output: Schema | None) -> None:
    if parameters.get("type") != "object":
        raise ConfigError(
            f'ClientTool {name}: parameters must be a JSON schema with "type": "object" and "properties", '
            f"got {dict(parameters)!r}."
        )
    for role, schema in (("parameters", parameters), ("output", output)):
        if schema is not None and (wrong := mistake(schema)):
            raise ConfigError(f"ClientTool {name}: {role} is no valid JSON schema: {wrong}.")


def _accepted(function: Callable[..., Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the known arguments that a function takes."""
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return {name: value for name, value in known.items() if name in parameters or name != "tool_context"}
    return {name: value for name, value in known.items() if name in parameters}


def _hints(function: Callable[..., Any], where: _Declaration) -> dict[str, Any]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise where.error(f"has an annotation that cannot be read: {error}") from error
    if "return" not in hints:
        raise where.error("needs a return annotation for the browser's output, for example `-> dict[str, str]`")
    return hints


def _parameters(
    signature: inspect.Signature, hints: Mapping[str, Any], explained: Mapping[str, str], where: _Declaration
) -> dict[str, Any]:
    adapters: dict[str, TypeAdapter[Any]] = {}
    for name, parameter in signature.parameters.items():
        _check_parameter(parameter, hints.get(name), where)
        adapters[name] = _adapter(hints[name], f"the parameter {name}", where)
    properties, shared = _schemas(adapters, where)
    for name, parameter in signature.parameters.items():
        if name in explained:
            properties[name].setdefault("description", explained[name])
        if parameter.default is not parameter.empty:
            properties[name]["default"] = _default(adapters[name], parameter, where)
    required = [name for name in properties if "default" not in properties[name]]
    return {"type": "object", "properties": properties, **({"required": required} if required else {}), **shared}


def _check_parameter(parameter: inspect.Parameter, hint: Any, where: _Declaration) -> None:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise where.error(f"has the parameter {parameter}, but a model gives arguments by name: list them one by one")
    if name == "tool_context" or (inspect.isclass(hint) and issubclass(hint, ToolContext)):
        raise where.error(f"has the parameter {name}, but the browser has no tool context: leave it out")
    if parameter.annotation is parameter.empty:
        raise where.error(f"needs an annotation for the parameter {name}, for example `{name}: str`")


def _adapter(hint: Any, what: str, where: _Declaration) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(hint)
    except PydanticUserError as error:
        raise where.error(f"has a type that cannot be used for {what}: {_reason(error)}") from error


def _schemas(adapters: Mapping[str, TypeAdapter[Any]], where: _Declaration) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the schema of each parameter, and the definitions that they share."""
    if not adapters:
        return {}, {}
    try:
        found, shared = TypeAdapter.json_schemas(
            [(name, "validation", adapter) for name, adapter in adapters.items()], schema_generator=_Plain
        )
    except PydanticUserError as error:
        raise where.error(f"has a parameter whose type JSON does not know: {_reason(error)}") from error
    return {name: found[name, "validation"] for name in adapters}, shared


def _output(hints: Mapping[str, Any], where: _Declaration) -> dict[str, Any] | None:
    if hints["return"] in (type(None), Any):
        return None
    adapter = _adapter(hints["return"], "the return value", where)
    try:
        return adapter.json_schema(schema_generator=_Plain)
    except PydanticUserError as error:
        raise where.error(f"has a return type that JSON does not know: {_reason(error)}") from error


def _default(adapter: TypeAdapter[Any], parameter: inspect.Parameter, where: _Declaration) -> Any:
    try:
        adapter.validate_python(parameter.default)
    except ValidationError as error:
        wrong = f"has a default for {parameter.name} that does not fit its annotation: {parameter.default!r}"
        raise where.error(wrong) from error
    return adapter.dump_python(parameter.default, mode="json")


def _reason(error: PydanticUserError) -> str:
    # Only the first sentence; the others are advice for authors of pydantic models.
    return re.split(r"\.\s", " ".join(str(error.message).split()))[0].rstrip(".")


class _Plain(GenerateJsonSchema):
    """A schema generator without titles: pydantic makes them of the names, and they only cost tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _is_empty(code: CodeType) -> bool:
    """Return whether a function does nothing, by its bytecode: the source may be missing."""
    return _shape(code) in _EMPTY


def _shape(code: CodeType) -> list[tuple[str, object]]:
    steps = [(step.opname, step.argval) for step in dis.get_instructions(code) if step.opname != "NOP"]
    return [(name, "" if isinstance(value, str) and name == "LOAD_CONST" else value) for name, value in steps]


def _bodies() -> Iterator[CodeType]:
    """Yield the code of functions that do nothing, as this version of Python compiles them."""
    for body in ("pass", "raise NotImplementedError", "raise NotImplementedError()", "raise NotImplementedError('')"):
        for kind in ("def", "async def"):
            compiled = compile(f"{kind} f(): {body}", "<empty>", "exec")
            yield from (const for const in compiled.co_consts if isinstance(const, CodeType))


_EMPTY = [_shape(code) for code in _bodies()]

_ARGS = re.compile(r"^(?:Args|Arguments|Parameters):[ \t]*\n(?P<lines>(?:[ \t]+.*\n?|[ \t]*\n)*)", re.MULTILINE)
_ENTRY = re.compile(r"(?P<name>\w+)(?:\s*\([^)]*\))?:\s*(?P<text>.*)")


def _split_doc(doc: str) -> tuple[str, dict[str, str]]:
    """Return a docstring without its `Args:`, and the description of each parameter there."""
    section = _ARGS.search(doc)
    if section is None:
        return doc, {}
    description = "\n\n".join(part for part in (doc[: section.start()].strip(), doc[section.end() :].strip()) if part)
    return description or doc, _entries(inspect.cleandoc("\n" + section["lines"]))


def _entries(lines: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    name = None
    for line in lines.splitlines():
        if not line.startswith((" ", "\t")) and (entry := _ENTRY.match(line)):
            name = entry["name"]
            entries[name] = entry["text"]
        elif name:
            entries[name] += " " + line.strip()
    return {name: text.strip() for name, text in entries.items() if text.strip()}
