"""The page on a connection that breaks, and with a server that is killed."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from tests.e2e.browser import HERE, Browser, launch, scenario_names
from tests.faults.proxy import ProxyProcess, proxy_process
from tests.servers import Server, serve

AGENT = str(HERE / "slow_agent.py")


@dataclass
class Site:
    """A server behind a bad network. A scenario gets the address for orders to the proxy, and the process to kill."""

    server: Server
    proxy: ProxyProcess
    folder: Path

    @property
    def url(self) -> str:
        known = {"control": self.proxy.control, "server": self.server.process.pid, "folder": self.folder}
        return f"{self.proxy.url}/?{urlencode(known)}"


@contextmanager
def behind_a_proxy(folder: Path) -> Generator[Site]:
    with serve(AGENT, cwd=folder) as server, proxy_process(port_of(server)) as proxy:
        yield Site(server, proxy, folder)


def port_of(server: Server) -> int:
    port = urlsplit(server.url).port
    assert port is not None
    return port


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launch() as running:
        yield running


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with behind_a_proxy(tmp_path_factory.mktemp("resume")) as running:
        yield running


@pytest.mark.parametrize("scenario", scenario_names("resume-scenarios.mjs"))
def test_resume(browser: Browser, site: Site, scenario: str) -> None:
    browser.play(scenario, site.url)


@pytest.mark.parametrize("scenario", scenario_names("crash-scenarios.mjs"))
def test_a_server_that_is_killed(browser: Browser, tmp_path: Path, scenario: str) -> None:
    with behind_a_proxy(tmp_path) as site, ThreadPoolExecutor(1) as pool:
        playing = pool.submit(browser.play, scenario, site.url)
        # A scenario that fails before it has killed the server must not be waited for.
        playing.add_done_callback(lambda _: site.server.process.kill())
        site.server.process.wait()
        with serve(AGENT, cwd=tmp_path) as another:
            site.proxy.order("target", port=port_of(another))
            playing.result()
