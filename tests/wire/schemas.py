"""The chunk schemas that the `ai` packages themselves validate with, exported to JSON Schema."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonschema.validators import validator_for

from adkwire.wire.chunks import Chunk, encode_chunk

FOLDER = Path(__file__).parent.parent / "schemas"


class ChunkSchema:
    """One release's schema, by chunk type."""

    def __init__(self, name: str) -> None:
        self.name = name
        root = json.loads((FOLDER / f"uichunk-{name}.schema.json").read_text())
        self.types: dict[str, dict[str, Any]] = {_type_of(one): one for one in root["anyOf"]}
        shared = {"definitions": root["definitions"]}
        self._validators = {kind: validator_for(root)({**one, **shared}) for kind, one in self.types.items()}

    def errors(self, chunk: Chunk) -> list[str]:
        """Return the errors of an encoded chunk; none when it is right."""
        sent = json.loads(encode_chunk(chunk))
        kind = "data-" if sent["type"].startswith("data-") else sent["type"]
        if kind not in self._validators:
            return [f"{self.name} has no {kind}"]
        return [error.message for error in self._validators[kind].iter_errors(sent)]


def _type_of(schema: Mapping[str, Any]) -> str:
    kind = schema["properties"]["type"]
    return kind["const"] if "const" in kind else kind["pattern"].removeprefix("^")


V6_STRICT = ChunkSchema("v6.0.0-strict")
V7_STRICT = ChunkSchema("v7.0.0-strict")
V6 = ChunkSchema("v6")
V7 = ChunkSchema("v7")
