"""load_target: finds the agent that a TARGET on the command line names.

| TARGET           | means                                                                        |
|------------------|------------------------------------------------------------------------------|
| `pkg.mod:attr`   | an attribute of an importable module                                         |
| `file.py[:attr]` | a Python file; without an attribute its `app`, `root_agent` or `agent`       |
| `folder/`        | an ADK agent folder: `agent.py` (or `__init__.py`) inside, and its `.env`     |
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from dotenv import dotenv_values
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.workflow import BaseNode

from adkwire.adk.app import Target, agents_in
from adkwire.adk.gemini_direct import has_gemini_key
from adkwire.errors import ConfigError

_NAMES = ("app", "root_agent", "agent")


def load_target(target: str) -> Target:
    """Return the agent, app or workflow that a TARGET names; raise a `ConfigError` of one line when there is none."""
    place, _, attribute = target.partition(":")
    path = Path(place)
    if path.is_dir():
        return _pick(_load_folder(path), attribute, target)
    if path.suffix == ".py":
        return _pick(_load_file(path), attribute, target)
    if not attribute and path.is_file():
        raise ConfigError(f"{target} is not a Python file: the name of one ends in .py.")
    if not attribute:
        raise ConfigError(f"{target} is neither a file, a folder nor of the form package.module:attribute.")
    return _pick(_load_module(place, target), attribute, target)


def check_models(target: Target, environ: Mapping[str, str]) -> None:
    """Raise a `ConfigError` when a model of the target does not exist or has no key."""
    from google.adk.models import Gemini  # heavy; who serves the demo does not need it

    for agent in agents_in(target.root_agent if isinstance(target, App) else target):
        if not isinstance(agent, LlmAgent):
            continue
        try:
            model = agent.canonical_model
        except Exception as error:
            raise ConfigError(f"Agent {agent.name} cannot have the model {agent.model}: {_one_line(error)}") from error
        if type(model) is Gemini and not has_gemini_key(environ):
            raise ConfigError(
                f"Agent {agent.name} uses {model.model}, but there is no key: set GOOGLE_API_KEY "
                "(or GOOGLE_GENAI_USE_VERTEXAI=1 for Vertex AI)."
            )


def _load_folder(folder: Path) -> ModuleType:
    inside = next((name for name in ("agent", "__init__") if (folder / f"{name}.py").is_file()), None)
    if inside is None:
        raise ConfigError(f"{folder} holds no agent.py; an ADK agent folder has one with `root_agent`.")
    for name, value in dotenv_values(folder / ".env").items():
        if value is not None:
            os.environ.setdefault(name, value)
    folder = folder.resolve()
    sys.path.insert(0, str(folder.parent))
    return _load_module(folder.name if inside == "__init__" else f"{folder.name}.{inside}", str(folder))


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"There is no file {path}.")
    name = f"adkwire_target_{path.stem}" if path.stem in sys.modules else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be read as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{path} cannot be loaded: {_one_line(error)}") from error
    return module


def _load_module(name: str, target: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{target} cannot be loaded: {_one_line(error)}") from error


def _pick(module: ModuleType, attribute: str, target: str) -> Target:
    names = (attribute,) if attribute else _NAMES
    found = {name: getattr(module, name) for name in names if hasattr(module, name)}
    if not found:
        raise ConfigError(f"{target} has no {' or '.join(names)}.")
    for value in found.values():
        if isinstance(value, App | BaseNode):
            return value
    name, value = next(iter(found.items()))
    raise ConfigError(f"{target}: {name} is of type {type(value).__name__}, not an ADK Agent, App or Workflow.")


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
