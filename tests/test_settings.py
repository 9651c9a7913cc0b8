import inspect
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from adkwire import ConfigError, Settings


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("ADKWIRE_"):
            monkeypatch.delenv(name)


def test_the_defaults_are_closed() -> None:
    settings = Settings.load()
    assert (settings.host, settings.port, settings.auth, settings.token) == ("127.0.0.1", 8000, "none", None)
    assert settings.allow_origin == settings.allow_host == ()
    assert not settings.error_detail
    assert settings.on_busy == "replace"


def test_the_numbers_of_the_contract() -> None:
    settings = Settings.load()
    assert (settings.heartbeat, settings.drain, settings.stream_ttl) == (15, 20, 900)
    assert (settings.max_body_bytes, settings.max_part_bytes, settings.max_parts) == (10_000_000, 5_000_000, 20)
    assert (settings.max_image_pixels, settings.chats_per_minute) == (16_000_000, 60)
    assert settings.db_path is None


def test_the_environment_is_read_and_what_is_given_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKWIRE_PORT", "9000")
    monkeypatch.setenv("ADKWIRE_ALLOW_ORIGIN", "https://a.example, https://b.example")
    monkeypatch.setenv("ADKWIRE_UI", "false")
    monkeypatch.setenv("ADKWIRE_NO_SUCH_THING", "1")
    settings = Settings.load(host="localhost")
    assert (settings.host, settings.port, settings.ui) == ("localhost", 9000, False)
    assert [origin.strip() for origin in settings.allow_origin] == ["https://a.example", "https://b.example"]
    assert Settings.load(port=1).port == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "-1"),
        ("port", "65536"),
        ("port", "http"),
        ("auth", "password"),
        ("on_busy", "shout"),
        ("heartbeat", "0"),
        ("max_body_bytes", "0"),
        ("chats_per_minute", "-1"),
        ("events_per_second", "-1"),
        ("stream_ttl", "0"),
        ("drain", "soon"),
        ("ui", "perhaps"),
        ("page_name", "x" * 61),
        ("page_name", " "),
        ("page_welcome", "x" * 2001),
        ("page_suggestions", "x" * 201),
        ("page_suggestions", "[1]"),
        ("page_suggestions", "[no list"),
        ("page_suggestions", "\n".join("x" * 13)),
    ],
)
def test_a_wrong_value_is_one_line_that_names_it(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"ADKWIRE_{name.upper()}", value)
    with pytest.raises(ConfigError) as wrong:
        Settings.load()
    assert f"ADKWIRE_{name.upper()}" in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_only_load_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKWIRE_PORT", "9000")
    assert Settings().port == 8000
    assert Settings.load().port == 9000


def test_durations_say_that_they_are_seconds() -> None:
    source = inspect.getsource(Settings)
    durations = [name for name, field in Settings.model_fields.items() if field.annotation is float]
    assert "drain" in durations
    for name in set(durations) - {"events_per_second"}:
        text = source.partition(f"\n    {name}: ")[2].partition('"""')[2]
        assert text.startswith("Seconds "), name


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        Settings.load().port = 1  # pyright: ignore[reportAttributeAccessIssue]


def test_a_token_is_not_shown() -> None:
    settings = Settings.load(token="canary")
    assert "canary" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


@pytest.mark.parametrize(
    ("db", "path"),
    [
        ("memory:", None),
        ("x.db", Path("x.db")),
        ("sqlite:///x.db", Path("x.db")),
        ("sqlite:////a/x.db", Path("/a/x.db")),
    ],
)
def test_where_chats_are_kept(db: str, path: Path | None) -> None:
    assert Settings.load(db=db).db_path == path


def test_every_setting_says_what_it_is() -> None:
    source = inspect.getsource(Settings)
    for name in Settings.model_fields:
        after = source.partition(f"\n    {name}: ")[2].partition("\n")[2]
        assert after.lstrip().startswith('"""'), name


@pytest.mark.parametrize("db", ["postgresql://user:secret@host/x", "mysql://secret", "sqlite://secret"])
def test_another_database_is_refused_without_repeating_it(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKWIRE_DB", db)
    with pytest.raises(ConfigError) as wrong:
        Settings.load()
    assert "ADKWIRE_DB" in str(wrong.value)
    assert "\n" not in str(wrong.value)
    assert "secret" not in str(wrong.value)


@pytest.mark.parametrize("text", ["Pay 5, please\n\n Where am I? ", '["Pay 5, please", "Where am I?"]'])
def test_suggestions_are_lines_or_a_list(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADKWIRE_PAGE_SUGGESTIONS", text)
    assert Settings.load().page_suggestions == ("Pay 5, please", "Where am I?")
