"""The files of recordings: one for each chat of each user, in one folder that nothing leaves."""

import errno
import hashlib
import os
import re
import stat
from pathlib import Path

from adkwire.errors import ConfigError
from adkwire.wire.recordings import NotARecording, Recording, belongs_to, read_recording

LOCAL_USER = "local"
"""The user of a server without identity, whose files are named after the chat alone."""
_KNOWN_HERE = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | _KNOWN_HERE
_HEAD = 2_000
_BLOCK = 65_536
_PLAIN_CHAT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
# Without capitals: they would make no difference on some disks.
_PLAIN_USER = re.compile(r"[a-z0-9_][a-z0-9_-]{0,63}")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
_NOT_OURS = (errno.ELOOP, errno.EMLINK, errno.EISDIR, errno.ENXIO)


class RecordingFiles:
    """Finds the file of a chat and adds to it. A link, or a file with something else in it, is never touched."""

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
        """The name of the file of a chat; None when what has that name is no recording of it."""
        for name in file_names(user, chat):
            if self._is_free(name, chat):
                return name
        return None

    def append(self, name: str, data: bytes) -> None:
        """Add whole lines to a file that was claimed."""
        file = self._open(name)
        try:
            while data:
                data = data[os.write(file, data) :]
        finally:
            os.close(file)

    def _open(self, name: str) -> int:
        return os.open(self.folder / name, _FLAGS, 0o600)

    def _is_free(self, name: str, chat: str) -> bool:
        try:
            file = self._open(name)
        except OSError as error:
            if error.errno in _NOT_OURS:
                return False
            raise
        try:
            return stat.S_ISREG(os.fstat(file).st_mode) and _goes_on(file, chat)
        finally:
            os.close(file)


def _goes_on(file: int, chat: str) -> bool:
    """Whether the file is empty or a recording of this chat; half a line of a killed server is cut off."""
    size = os.lseek(file, 0, os.SEEK_END)
    os.lseek(file, 0, os.SEEK_SET)
    if size and not belongs_to(os.read(file, _HEAD), chat):
        return False
    whole = _end_of_lines(file, size)
    if whole != size:
        os.ftruncate(file, whole)
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
    """What the file of a chat may be called: the first of these that is not taken by something else.

    Neither `=` nor `~` can stand in the id of a chat, so no two chats have a name in common. A disk that does not know
    capitals may give one chat the first name of another, which is noticed, but never the second.
    """
    owner = "" if user == LOCAL_USER else "~" + (user if _is_plain(_PLAIN_USER, user) else _hashed(user))
    other = f"{_hashed(chat)}{owner}.jsonl"
    return (f"{chat}{owner}.jsonl", other) if _is_plain(_PLAIN_CHAT, chat) else (other,)


def _is_plain(form: re.Pattern[str], text: str) -> bool:
    return form.fullmatch(text) is not None and _DEVICE.fullmatch(text) is None


def _hashed(text: str) -> str:
    readable = re.sub(r"[^a-z0-9]+", "-", text.lower())[:40].strip("-")
    return f"{readable}={hashlib.blake2b(text.encode(errors='surrogatepass'), digest_size=12).hexdigest()}"


def load_recording(path: Path) -> Recording:
    """Read a file; what is wrong with it is said in one line."""
    try:
        return read_recording(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror or error}.") from None
    except NotARecording as error:
        raise ConfigError(f"{path} cannot be replayed, {error}.") from None
