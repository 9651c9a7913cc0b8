"""The settings of a server. `Settings.load()` reads each from the environment variable `ADKWIRE_<NAME>`."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    StringConstraints,
    ValidationError,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from adkwire.errors import ConfigError


def _split(value: object) -> object:
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _lines(value: object) -> object:
    """Return the lines of a text, or the list that it is in JSON: sentences may contain commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        return json.loads(value)
    return [line for line in value.splitlines() if line.strip()]


_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+", re.IGNORECASE)
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Title = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60)]
Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Paragraph = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]
Sentences = Annotated[tuple[Sentence, ...], NoDecode, BeforeValidator(_lines)]


class Settings(BaseSettings):
    """All settings, with safe defaults; each limit has its reason."""

    model_config = SettingsConfigDict(env_prefix="ADKWIRE_", frozen=True, extra="ignore")

    host: str = "127.0.0.1"
    """The address to listen on. Anything but loopback needs an `auth` other than `none`."""
    port: NonNegativeInt = Field(default=8000, le=65535)
    """The port to listen on; 0 takes a free one and prints it."""
    db: str = "memory:"
    """The SQLite file that keeps chats; `memory:` keeps them until the process ends. `adkwire serve` has a default of
    its own: `.adkwire/state.db`."""

    auth: Literal["none", "token"] = "none"
    """Who may use the server: `none` is one local user and works on loopback only, `token` needs a bearer token."""
    token: SecretStr | None = None
    """The bearer token of `auth = token`."""
    allow_origin: Names = ()
    """Other origins whose pages may call the server (`https://app.example.com`), separated by commas."""
    allow_host: Names = ()
    """Host names the server answers to besides loopback names and `host`: a closed list stops DNS rebinding."""
    ui: bool = True
    """True to serve the page at `/`."""
    page_name: Title | None = None
    """The name that the page shows instead of its own, at most 60 characters."""
    page_logo: Path | None = None
    """A PNG, JPEG, WebP or SVG file that the page shows beside the name, at most 500 kB. It is read at the start."""
    page_welcome: Paragraph | None = None
    """The text of an empty chat, at most 2,000 characters."""
    page_suggestions: Sentences = Field(default=(), max_length=12)
    """Messages that an empty chat offers, at most 12 of 200 characters: one in each line, or a JSON list."""

    on_busy: Literal["replace", "refuse", "queue"] = "replace"
    """What a message does to a running answer: stop it, be refused with 409, or wait for its end."""
    stop_without_reader: NonNegativeFloat = 0
    """Seconds after which a run that nobody reads is stopped; 0 lets it run to its end."""
    model: str | None = None
    """The Gemini model of `/api/gemini`, and of the demo; without it the agent's own one."""
    policy: Path | None = None
    """A TOML or YAML file with the rules of the gate: which calls run, ask a person first, or are refused."""
    approval_timeout: NonNegativeFloat = 0
    """Seconds that a call waits for a person or a browser while nobody is connected; 0 waits for ever."""
    live_modality: Literal["audio", "text"] = "audio"
    """What a live model answers with: audio with its transcript, or text alone."""
    live_approval_timeout: NonNegativeFloat = 300
    """Seconds that a call of a live conversation waits for a person while somebody is connected; 0 waits for ever."""
    client_tool_timeout: NonNegativeFloat = 120
    """Seconds that a live conversation waits for the output of a browser tool; 0 waits for ever."""
    live_grace: NonNegativeFloat = 60
    """Seconds that a live conversation goes on without a socket, so that a lost connection can come back to it."""
    max_output_bytes: PositiveInt = 16_000
    """The largest output of a browser tool, as JSON: it goes into the model's context."""
    record: Path | None = None
    """A folder into which every chat is recorded, for `adkwire replay`; without it nothing is recorded."""
    events_per_second: NonNegativeFloat = 30
    """Pacing: partial texts of a model are joined to at most this many events a second; 0 passes on each of them."""
    error_detail: bool = False
    """True to send the text of an exception to the model and the client. Off, since it may hold paths, queries or keys;
    but `adkwire serve` turns it on where the only user is the one at the machine (`auth = none`)."""

    heartbeat: PositiveFloat = 15
    """Seconds between comments on an idle stream, so that proxies keep it open."""
    stream_ttl: float = Field(default=15 * 60, ge=1)
    """Seconds the chunks of a finished run are kept for clients that come back."""
    stream_bytes: PositiveInt = 256_000_000
    """Bytes that the streams of all runs may have together, in memory and in the file: pictures are large."""
    stream_run_bytes: PositiveInt = 64_000_000
    """Bytes of one run that are kept as a stream: a reader that falls further behind must load the chat again."""
    slow_reader: PositiveFloat = 30
    """Seconds that a client may take to read a write before its connection is cut; it can reconnect."""
    drain: NonNegativeFloat = 20
    """Seconds that running answers get to end when the server is told to stop."""

    max_body_bytes: PositiveInt = 10_000_000
    """The largest request body: enough for a chat's history with a few pictures, too little to fill the memory."""
    max_part_bytes: PositiveInt = 5_000_000
    """The largest text or file of one message part."""
    max_parts: PositiveInt = 20
    """How many parts one message may have."""
    max_image_pixels: PositiveInt = 16_000_000
    """The most pixels of a picture, by its header: a small file can unpack to gigabytes."""
    chats_per_minute: NonNegativeInt = 60
    """How many messages one user may send a minute, since each costs a model call; 0 sets no limit."""
    max_control_bytes: PositiveInt = 64_000
    """The largest frame on a socket that carries no message."""
    max_audio_bytes: PositiveInt = 16_000
    """The largest piece of audio on a live socket: half a second, so that no client can fill the memory."""
    max_video_bytes: PositiveInt = 1_000_000
    """The largest picture of a camera or a screen on a live socket."""
    audio_per_second: PositiveInt = 60
    """How many pieces of audio one socket may send a second: a microphone sends 50."""
    controls_per_second: PositiveInt = 20
    """How many frames one socket may send a second."""
    sockets_per_user: PositiveInt = 32
    """How many sockets one user may have open: a stock `WebSocketChatTransport` opens one for each chat it shows."""
    socket_requests: PositiveInt = 32
    """How many answers one socket may follow at once."""
    socket_idle: PositiveFloat = 300
    """Seconds after which a socket on which nothing happens is closed."""

    @field_validator("allow_origin")
    @classmethod
    def _real_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not _ORIGIN.fullmatch(origin.rstrip("/")):
                raise ValueError(f"{origin} is not an origin such as https://app.example.com or http://localhost:5173")
        return origins

    @field_validator("db")
    @classmethod
    def _known_database(cls, db: str) -> str:
        if "://" in db and not db.startswith("sqlite:///"):
            raise ValueError("expected a SQLite file or memory:")
        return db

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from the arguments only: just `load` reads the environment."""
        return (init_settings,)

    @classmethod
    def load(cls, **values: Any) -> "Settings":
        """Return settings from the environment; arguments win over it. A wrong value raises a one-line ConfigError."""
        try:
            return cls(**{**EnvSettingsSource(cls)(), **values})
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"]) or "settings"
            raise ConfigError(
                f"{name} (ADKWIRE_{name.upper()}): {first['msg'].removeprefix('Value error, ')}"
            ) from None

    @property
    def db_path(self) -> Path | None:
        """The path of the SQLite file; None for memory."""
        return None if self.db == "memory:" else Path(self.db.removeprefix("sqlite:///"))
