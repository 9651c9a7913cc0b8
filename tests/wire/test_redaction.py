"""Secrets and media are redacted from recordings."""

import json
from typing import Any

import pytest

from adkwire.wire.redaction import HIDDEN, Secrets, is_suspicious, redact, without_media


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "authorisation", "cookie", "Set-Cookie", "password", "userPassword", "passwd", "passphrase"),
        *("secret", "client_secret", "clientSecret", "api_key", "apiKey", "x-api-key", "API KEY", "apikey"),
        *("access_key", "privateKey", "credentials", "bearer", "token", "access_token", "idToken", "tokens"),
    ],
)
def test_values_under_names_of_secrets(name: str) -> None:
    value = {"a": [{name: "hush"}, {name: {"deep": "hush"}}, {name: ["hush"]}]}
    assert is_suspicious(json.dumps(value).encode())
    assert redact(value) == {"a": [{name: HIDDEN}, {name: HIDDEN}, {name: HIDDEN}]}


def test_numbers_may_be_passwords_but_counts_of_tokens_are_none() -> None:
    value: dict[str, Any] = {"password": 1234, "totalTokens": 12, "tokens": 3.5, "token": None, "tokenCount": "x", 1: 2}
    assert redact(value) == {**value, "password": HIDDEN}


@pytest.mark.parametrize(
    "value",
    [{"secretary": None}, {"text": "my password is"}, ["token"], ("a",), "{not json: password", 7, None, b"short", {}],
)
def test_a_value_without_secrets_is_returned_itself(value: object) -> None:
    assert redact(value) is value


def test_json_inside_a_string() -> None:
    assert redact({"delta": '{"password":"hush","a":1}'}) == {"delta": '{"password":"[redacted]","a":1}'}
    assert redact('{"a":"token"}') == '{"a":"token"}'
    assert redact('["\ud800 password"]') == '["\ud800 password"]'


def test_media_is_only_counted() -> None:
    assert redact({"data": b"x" * 1001}) == {"data": "[1001 bytes]"}
    url = "data:image/png;base64," + "A" * 2000
    assert without_media([{"url": url, "n": 1}, "data:short"]) == [
        {"url": f"{url[:40]}... [2022 characters]", "n": 1},
        "data:short",
    ]


def test_known_values_in_every_form() -> None:
    secrets = Secrets(['he said "pass" & went', "plain-canary", None, "", "short"])
    assert secrets
    value = {"a": 'x he said "pass" & went y', "b": json.dumps({"c": 'he said "pass" & went'}), "d": "plain-canary"}
    raw = json.dumps(value).encode()
    covered = secrets.cover(raw)
    assert json.loads(covered) == {"a": "x [redacted] y", "b": '{"c": "[redacted]"}', "d": HIDDEN}
    assert secrets.cover(b"?key=he%20said%20%22pass%22%20%26%20went") == b"?key=[redacted]"
    assert secrets.cover(b"short") == b"short"
    assert not Secrets(["short"])


def test_the_longer_of_two_secrets_is_covered_completely() -> None:
    secrets = Secrets(["canary", "canary-and-more"])
    assert secrets.cover(b"canary-and-more canary") == b"[redacted] [redacted]"
    assert secrets.cover_text("canary-and-more canary") == "[redacted] [redacted]"


@pytest.mark.parametrize(
    ("text", "end"), [("my can", "can"), ("c", "c"), ("canary", ""), ("my cat", ""), ("", ""), ("cacana", "cana")]
)
def test_the_beginning_of_a_secret_at_the_end_of_a_text(text: str, end: str) -> None:
    assert Secrets(["canary"]).begun_at_end(text) == end
