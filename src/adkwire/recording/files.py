"""The files of recordings: one for each chat of each user, all in one folder."""

import errno
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from adkwire.errors import ConfigError
from adkwire.wire.recording_lines import NotARecording, Recording, belongs_to, read_recording

LOCAL_USER = "local"
"""The user of a server without authentication, whose files are named after the chat alone."""
_PLATFORM_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | _PLATFORM_FLAGS
_HEAD = 2_000
"""Bytes that are read to see whose recording a file is."""
_BLOCK = 65_536
"""Bytes that are read at once to find the end of the last line."""
_PLAIN_CHAT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
# Without capitals: some file systems ignore case.
_PLAIN_USER = re.compile(r"[a-z0-9_][a-z0-9_-]{0,63}")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
"""Names that Windows reserves for devices."""
_NOT_A_FILE = (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO)
"""Errors of opening a link, a folder or a pipe."""


class RecordingFiles:
    """Chooses the file of each chat and appends to it. Links and files that are no recordings are never written to."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "Permission denied")
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"Cannot record into {folder}: {reason}. Choose another folder with --record.") from None
        self.folder = folder

    def claim(self, user: str, chat: str) -> str | None:
        """Return the name of a chat's file; None when every name it may have is taken by something else."""
        for name in file_names(user, chat):
            if self._is_usable(name, chat):
                return name
        return None

    def append(self, name: str, data: bytes) -> None:
        """Append whole lines to a file that was claimed."""
        file = self._open(name)
        try:
            while data:
                data = data[os.write(file, data) :]
        finally:
            os.close(file)

    def find(self, user: str, chat: str) -> str | None:
        """Return the name of a chat's file; None when the chat has none."""
        return next((name for name in file_names(user, chat) if self._is_recording(name, chat)), None)

    def open_to_read(self, name: str) -> BinaryIO:
        """Open a file that was found."""
        return os.fdopen(os.open(self.folder / name, os.O_RDONLY | _PLATFORM_FLAGS), "rb")

    def _is_recording(self, name: str, chat: str) -> bool:
        try:
            with self.open_to_read(name) as file:
                return stat.S_ISREG(os.fstat(file.fileno()).st_mode) and belongs_to(file.read(_HEAD), chat)
        except OSError:
            return False

    def _open(self, name: str) -> int:
        return os.open(self.folder / name, _FLAGS, 0o600)

    def _is_usable(self, name: str, chat: str) -> bool:
        try:
            file = self._open(name)
        except OSError as error:
            if error.errno in _NOT_A_FILE:
                return False
            raise
        try:
            return stat.S_ISREG(os.fstat(file).st_mode) and _can_continue(file, chat)
        finally:
            os.close(file)


def _can_continue(file: int, chat: str) -> bool:
    """Return whether a file is empty or a recording of this chat. Cuts off a last line that is incomplete."""
    size = os.lseek(file, 0, os.SEEK_END)
    os.lseek(file, 0, os.SEEK_SET)
    if size and not belongs_to(os.read(file, _HEAD), chat):
        return False
    end = _end_of_lines(file, size)
    if end != size:
        os.ftruncate(file, end)
    return True


def _end_of_lines(file: int, size: int) -> int:
    end = size
    while end:
        start = max(0, end - _BLOCK)
        os.lseek(file, start, os.SEEK_SET)
        found = os.read(file, end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def file_names(user: str, chat: str) -> tuple[str, ...]:
    """Return the names that a chat's file may have, in the order in which they are tried.

    A chat id contains neither `=` nor `~`, so the names of two chats differ. On a file system that ignores case the
    first names of two chats may be the same file, which is noticed when it is opened; their second names never are.
    """
    owner = "" if user == LOCAL_USER else "~" + (user if _is_plain(_PLAIN_USER, user) else _hashed(user))
    hashed = f"{_hashed(chat)}{owner}.jsonl"
    return (f"{chat}{owner}.jsonl", hashed) if _is_plain(_PLAIN_CHAT, chat) else (hashed,)


def _is_plain(form: re.Pattern[str], text: str) -> bool:
    return form.fullmatch(text) is not None and _DEVICE.fullmatch(text) is None


def _hashed(text: str) -> str:
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower())[:40].strip("-")
    return f"{readable}={hashlib.blake2b(text.encode(errors='surrogatepass'), digest_size=12).hexdigest()}"


def load_recording(path: Path) -> Recording:
    """Read a recording; a `ConfigError` says in one line what is wrong with the file."""
    try:
        return read_recording(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror or error}.") from None
    except NotARecording as error:
        raise ConfigError(f"{path} cannot be replayed, {error}.") from None
