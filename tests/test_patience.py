"""The limit of all waits is one number, also for Node."""

import os
import subprocess

import pytest

from tests.patience import PATIENCE
from tests.servers import ROOT

SAY = "import('./tests/patience.mjs').then(({ PATIENCE }) => console.log(PATIENCE))"


@pytest.mark.parametrize("given", [None, "7"])
def test_node_waits_as_long(given: str | None) -> None:
    env = {**os.environ, "PATIENCE": str(PATIENCE) if given is None else given}
    done = subprocess.run(["node", "-e", SAY], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert float(done.stdout) == 1000 * (PATIENCE if given is None else float(given))
