"""Files of recordings: names that stay in the folder and differ, and files that are never written to."""

import os
import random
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath
from string import ascii_letters, digits

import pytest

from adkwire.errors import ConfigError
from adkwire.recording.files import RecordingFiles, file_names, load_recording
from adkwire.wire.chunks import Start, encode_chunk
from adkwire.wire.recording_lines import encode_line

DEVICES = {"con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(10))}


def line(chat: str, sequence: int = 0) -> bytes:
    return encode_line(1, chat, "sse", "server-chunk", "out", sequence, encode_chunk(Start(message_id="m")))


DANGEROUS = [
    "..",
    "/",
    "\\",
    "%2e",
    "\0",
    "\n",
    "CON",
    "nul",
    "com1.",
    ":",
    "~",
    "=",
    "é",
    "\ud800",
    " ",
    ".jsonl",
    "-",
]


def strings(seed: int, count: int) -> list[str]:
    """Return random strings of letters, digits and text that is dangerous in a file name."""
    draw = random.Random(seed)
    pieces = [*DANGEROUS, *ascii_letters, *digits]
    return ["".join(draw.choices(pieces, k=draw.choice([0, 1, 2, 3, 8, 150]))) for _ in range(count)]


def test_a_name_is_a_valid_file_name_on_every_system() -> None:
    any_text = strings(1, 10_000)
    for user, chat in zip(any_text, reversed(any_text), strict=True):
        for name in (*file_names(user, chat[:128]), *file_names("local", chat)):
            assert PurePosixPath(name).name == name == PureWindowsPath(name).name
            assert not set(name) & set('<>:"/\\|?*\0')
            assert name.isprintable()
            assert name.isascii()
            assert name.endswith(".jsonl")
            assert not name.startswith((".", "-"))
            assert len(name) < 255
            assert name.partition(".")[0].lower() not in DEVICES


def test_no_two_chats_have_the_same_last_name() -> None:
    """Not even on a file system that ignores case."""
    draw = random.Random(2)
    plain = {"".join(draw.choices("aAb.:-_~=", k=draw.randint(1, 6))) for _ in range(10_000)}
    keys = {(user, chat) for chat in plain for user in ("local", "ann", "Ann", "a~b", "a", "A")}
    assert len({file_names(*key)[-1].lower() for key in keys}) == len(keys)


@pytest.mark.parametrize(
    ("user", "chat", "name"),
    [
        ("local", "V1StGXR8_Z5jdHi6", "V1StGXR8_Z5jdHi6.jsonl"),
        ("local", "a.b-c_d", "a.b-c_d.jsonl"),
        ("ann", "chat", "chat~ann.jsonl"),
    ],
)
def test_the_usual_name(user: str, chat: str, name: str) -> None:
    assert file_names(user, chat)[0] == name


@pytest.mark.parametrize("chat", ["..", "...", ".hidden", "-rf", "a:b", "CON", "nul.txt", "com1", "x" * 128])
def test_unusual_chats_are_kept_in_the_folder(tmp_path: Path, chat: str) -> None:
    files = RecordingFiles(tmp_path / "deep" / "recordings")
    name = files.claim("local", chat)
    assert name is not None
    files.append(name, line(chat))
    assert [path.name for path in files.folder.iterdir()] == [name]
    assert {path.name for path in tmp_path.iterdir()} == {"deep"}


@pytest.mark.skipif(os.name == "nt", reason="modes are a thing of POSIX")
def test_only_the_owner_can_read_files_and_folder(tmp_path: Path) -> None:
    files = RecordingFiles(tmp_path / "recordings")
    name = files.claim("local", "chat")
    assert name is not None
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((files.folder / name).stat().st_mode) == 0o600


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    files = RecordingFiles(tmp_path / "recordings")
    target = tmp_path / "elsewhere"
    target.write_bytes(b"")
    names = file_names("local", "chat")
    (files.folder / names[0]).symlink_to(target)
    assert files.claim("local", "chat") == names[1]
    (files.folder / names[1]).unlink()
    (files.folder / names[1]).symlink_to(target)
    assert files.claim("local", "chat") is None
    with pytest.raises(OSError, match="symbolic links"):
        files.append(names[0], line("chat"))
    assert target.read_bytes() == b""


def test_a_link_that_replaces_a_claimed_file_is_not_followed(tmp_path: Path) -> None:
    files = RecordingFiles(tmp_path / "recordings")
    name = files.claim("local", "chat")
    assert name is not None
    target = tmp_path / "elsewhere"
    (files.folder / name).unlink()
    (files.folder / name).symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        files.append(name, line("chat"))
    assert not target.exists()


@pytest.mark.parametrize("content", [b"notes of mine\n", line("CHAT"), b"{}"])
def test_a_file_that_is_no_recording_of_the_chat_is_not_written_to(tmp_path: Path, content: bytes) -> None:
    """On a file system that ignores case, the first name of the chat CHAT is the file of the chat `chat`."""
    files = RecordingFiles(tmp_path)
    first, second = file_names("local", "chat")
    (tmp_path / first).write_bytes(content)
    assert files.claim("local", "chat") == second
    assert (tmp_path / first).read_bytes() == content


def test_folders_and_pipes_are_not_written_to(tmp_path: Path) -> None:
    files = RecordingFiles(tmp_path)
    first, second = file_names("local", "chat")
    (tmp_path / first).mkdir()
    os.mkfifo(tmp_path / second)
    assert files.claim("local", "chat") is None


@pytest.mark.parametrize("half", [b"", b'{"timestamp":1,"chat":"ch', b"x" * 200_000])
def test_a_recording_continues_behind_its_last_complete_line(tmp_path: Path, half: bytes) -> None:
    files = RecordingFiles(tmp_path)
    (tmp_path / "chat.jsonl").write_bytes(line("chat") + half)
    assert files.claim("local", "chat") == "chat.jsonl"
    files.append("chat.jsonl", line("chat", 1))
    assert (tmp_path / "chat.jsonl").read_bytes() == line("chat") + line("chat", 1)


def test_a_first_line_that_was_cut_off(tmp_path: Path) -> None:
    files = RecordingFiles(tmp_path)
    (tmp_path / "chat.jsonl").write_bytes(line("chat")[:60])
    assert files.claim("local", "chat") == "chat.jsonl"
    assert (tmp_path / "chat.jsonl").read_bytes() == b""


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"Cannot record into .*file.*--record"):
        RecordingFiles(tmp_path / "file")


def test_errors_of_loading_say_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read .*: No such file"):
        load_recording(tmp_path / "none.jsonl")
    (tmp_path / "notes").write_text("hello\n")
    with pytest.raises(ConfigError, match="notes cannot be replayed, line 1: is not JSON"):
        load_recording(tmp_path / "notes")
