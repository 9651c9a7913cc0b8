"""The one limit of all waits in the tests. Tests wait for events; the limit only turns a hang into a failure.

The number stands in `patience.json`, for Python here and for Node in `patience.mjs`. It is far longer than any event
takes on the slowest of machines, so a passing test never reaches it. `PATIENCE=20 pytest ...` finds a hang sooner.
"""

import json
import os
from pathlib import Path

_SECONDS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))["seconds"]

PATIENCE = float(os.environ.get("PATIENCE", _SECONDS))
"""Seconds to wait for an event that must come: an answer, a started server, the end of a process."""
