"""The arguments of `Bridge` and `create_app`, and what they do not touch."""

import inspect
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from google.adk.agents import LlmAgent

from adkwire import Bridge, ConfigError, Settings, Stores, create_app
from adkwire.bridge import BridgeOptions
from adkwire.testing import ScriptedModel

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/adkwire"


def agent() -> LlmAgent:
    return LlmAgent(name="helper", model=ScriptedModel(turns=[]))


def test_a_bridge_reads_no_environment_and_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.setenv(f"ADKWIRE_{name.upper()}", "not a value of this setting")
    assert Bridge(agent()).settings == Settings()
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_a_folder_that_does_not_exist_is_refused_and_the_folder_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="its folder does not exist"):
        Bridge(agent(), settings=Settings(db=str(tmp_path / "none" / "chats.db")))
    assert list(tmp_path.iterdir()) == []


def test_create_app_takes_what_a_bridge_takes() -> None:
    taken = inspect.signature(Bridge).parameters
    assert set(BridgeOptions.__annotations__) == set(taken) - {"agent"}
    given = Stores.open(Settings())
    assert create_app(agent(), settings=Settings(ui=False), stores=given).state.bridge.settings.ui is False


def test_create_app_takes_a_bridge_alone() -> None:
    bridge = Bridge(agent())
    assert create_app(bridge).state.bridge is bridge
    with pytest.raises(TypeError, match="create_app takes no settings beside a Bridge"):
        create_app(bridge, settings=Settings())


def test_the_stores_come_as_one() -> None:
    assert not {"stream_log", "gate_store", "signals"} & set(inspect.signature(Bridge).parameters)


def test_every_extra_is_used() -> None:
    """An extra that no code imports promises what is not there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: needs for name, needs in project.get("optional-dependencies", {}).items() if name != "dev"}
    modules = packages_distributions()
    source = "".join(file.read_text() for file in SOURCE.rglob("*.py"))
    for name, needs in extras.items():
        packages = {need.split("[")[0].split(">")[0].strip().lower() for need in needs}
        imported = [module for module, names in modules.items() if packages & {each.lower() for each in names}]
        assert any(f"import {module}" in source or f"from {module}" in source for module in imported), name
