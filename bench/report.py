"""The table as Markdown, and the line about the machine on which it was made."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from bench.measure import Line

_PACKAGES = ("adkwire", "google-adk", "ag-ui-adk", "pydantic-ai-slim", "pydantic", "orjson", "msgspec", "uvicorn")
_HEADER = ("ratio", "quartiles (rounds)", "goal", "", "what", "against", "ours / theirs, medians")


def table(lines: Sequence[Line]) -> str:
    """Return all lines as one Markdown table with aligned columns."""
    rows = [_HEADER, *(_cells(line) for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
    text = [_joined(row, widths) for row in rows]
    text.insert(1, _joined(["-" * width for width in widths], widths))
    return "\n".join(text)


def verdict(line: Line) -> str:
    """Return whether the median reaches the goal; `~` when the quartiles are on both sides of it, or there are none."""
    if line.goal is None:
        return ""
    word = "met" if line.goal.met(line.measured.median) else "missed"
    unsure = line.goal.met(line.measured.low) != line.goal.met(line.measured.high) or line.measured.rounds == 1
    return f"{word} ~" if unsure else word


def machine() -> str:
    """Return the processor, the load and the versions with which the table was made."""
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{_processor()}, {os.cpu_count()} cores, load {load}; {python}; {packages}"


def _cells(line: Line) -> tuple[str, ...]:
    low, median, high = (_number(value) for value in line.measured[:3])
    between = f"{low} - {high} ({line.measured.rounds})" if line.measured.rounds > 1 else "one round"
    unit, goal = ("x", "none") if line.goal is None else (line.goal.unit, str(line.goal))
    return (f"{median}{unit}", between, goal, verdict(line), line.what, line.against, line.detail)


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 5 else f"{value:.2f}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    found = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return found[0].partition(":")[2].strip() if found else platform.processor() or platform.machine()
