import subprocess
import sys

import pytest

import adkwire
from adkwire import errors

PUBLIC = {"Authenticate", "Bridge", "ClientTool", "Policy", "Rule", "Settings", "User", "client_tool", "create_app"}
STORES = {"Batch", "CallRow", "Closed", "GateStore", "GrantRow", "RunHead", "Signals", "Stores", "StreamLog"}
ERRORS = {"AdkwireError", "ConfigError", "Forbidden", "RequestError", "Unauthorized", "Unavailable"}


def test_the_public_names() -> None:
    assert set(adkwire.__all__) == PUBLIC | STORES | ERRORS
    assert list(adkwire.__all__) == sorted(adkwire.__all__)


@pytest.mark.parametrize("name", sorted(adkwire.__all__))
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    assert getattr(adkwire, name).__doc__


def test_star_brings_exactly_them() -> None:
    names: dict[str, object] = {}
    exec("from adkwire import *", names)
    assert {name for name in names if not name.startswith("__")} == set(adkwire.__all__)


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="nothing_like_it"):
        getattr(adkwire, "nothing_like_it")  # noqa: B009 - the attribute does not exist
    with pytest.raises(ImportError):
        exec("from adkwire import nothing_like_it")


def test_the_errors_are_one_tree() -> None:
    found = {
        name: value for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)
    }
    assert all(issubclass(value, errors.AdkwireError) for value in found.values())
    assert errors.__doc__ is not None
    assert not [name for name in found if name not in errors.__doc__]


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import adkwire", ("google.adk", "google.genai", "fastapi", "starlette", "uvicorn")),
        (
            "import adkwire.wire.encode.encoder, adkwire.wire.decode.decoder, adkwire.wire.messages",
            ("google", "fastapi", "pydantic", "asyncio"),
        ),
        ("import adkwire.cli", ("google.adk", "google.genai", "fastapi")),
    ],
    ids=["adkwire", "wire", "cli"],
)
def test_imports_stay_light(statement: str, forbidden: tuple[str, ...]) -> None:
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not [name for name in forbidden if name in loaded]
