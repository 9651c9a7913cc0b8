"""What the owner puts on the page: in /api/info, and the logo at its own address."""

from pathlib import Path

import pytest

from adkwire import Bridge, ConfigError, Settings
from adkwire.server.owner_page import OwnerPage
from adkwire.testing import ScriptedModel
from tests.server.conftest import Open
from tests.support.chats import scripted
from tests.wire.pictures import jpeg, png, webp_lossless

PNG = png(1, 1)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


async def test_nothing_is_set(open_site: Open) -> None:
    site = await open_site()
    assert (await site.client.get("/api/info")).json()["page"] == {}
    reply = await site.client.get("/api/page/logo")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not-found")


async def test_everything_is_set(open_site: Open, tmp_path: Path) -> None:
    logo = tmp_path / "logo.txt"
    logo.write_bytes(PNG)
    site = await open_site(
        page_name="Acme Help", page_logo=logo, page_welcome="Ask\nme.", page_suggestions=["Where, please?", "Pay 5"]
    )
    page = (await site.client.get("/api/info")).json()["page"]
    address = page.pop("logo")
    assert page == {"name": "Acme Help", "welcome": "Ask\nme.", "suggestions": ["Where, please?", "Pay 5"]}
    logo.unlink()
    reply = await site.client.get(address)
    assert (reply.status_code, reply.content) == (200, PNG)
    assert reply.headers["cache-control"] == "public, max-age=86400"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (jpeg(1, 1), "image/jpeg"),
        (webp_lossless(1, 1), "image/webp"),
        (SVG, "image/svg+xml"),
        (b"<?xml version='1.0'?>\n<!-- mine -->\n<!DOCTYPE svg>\n" + SVG, "image/svg+xml"),
    ],
)
async def test_a_logo_runs_and_loads_nothing(open_site: Open, tmp_path: Path, data: bytes, kind: str) -> None:
    """Opened by itself it is a document of our origin, which must not be able to call the API."""
    (tmp_path / "logo").write_bytes(data)
    site = await open_site(page_logo=tmp_path / "logo", auth="token", token="secret")
    reply = await site.client.get("/api/page/logo")
    assert (reply.status_code, reply.content) == (200, data)
    assert reply.headers["content-type"] == kind
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    assert (await site.client.get("/api/info")).status_code == 401


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GIF89a", "no PNG, JPEG, WebP or SVG"),
        (b"<html><svg></svg></html>", "no PNG, JPEG, WebP or SVG"),
        (b"", "no PNG, JPEG, WebP or SVG"),
        (PNG + b"0" * 500_000, "more than 500000 bytes"),
        (None, "No such file"),
    ],
)
def test_a_logo_that_cannot_be_shown_stops_the_start(tmp_path: Path, data: bytes | None, words: str) -> None:
    logo = tmp_path / "logo"
    if data is not None:
        logo.write_bytes(data)
    with pytest.raises(ConfigError, match=words) as refused:
        Bridge(scripted(ScriptedModel(turns=[])), settings=Settings(page_logo=logo)).routes()
    assert "--page-logo" in str(refused.value)


def test_the_address_changes_with_the_logo(tmp_path: Path) -> None:
    addresses = set[object]()
    for data in (PNG, SVG):
        (tmp_path / "logo").write_bytes(data)
        addresses.add(OwnerPage(Settings(page_logo=tmp_path / "logo")).as_info()["logo"])
    assert len(addresses) == 2
