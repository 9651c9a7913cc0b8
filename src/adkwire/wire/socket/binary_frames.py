"""Binary frames of a live socket, in both directions: a head of 8 bytes, little endian, then audio or an image.

| bytes | field      | meaning                                                                  |
|-------|------------|--------------------------------------------------------------------------|
| 1     | kind       | 1 audio, 2 JPEG, 3 PNG                                                   |
| 1     | flags      | bit 0: the last audio of a turn                                          |
| 2     | generation | audio of an older generation than `interrupted` names must not be played |
| 4     | position   | where in its generation the audio begins, in milliseconds                |

Audio has 16 bits per sample and one channel; 16 kHz from the client, the rate in `ready` from the server.
"""

import struct

BINARY_HEAD = struct.Struct("<BBHI")
AUDIO, JPEG, PNG = 1, 2, 3
_LAST_OF_TURN = 1
GENERATIONS = 2**16
"""The number of generations before the count begins at 0 again."""
MILLISECONDS = 2**32
"""The number of milliseconds in a generation before the count begins at 0 again."""


def encode_audio(pcm: bytes, generation: int, position: int, *, last: bool) -> bytes:
    """Return the binary frame of a piece of the model's audio."""
    flags = _LAST_OF_TURN if last else 0
    return BINARY_HEAD.pack(AUDIO, flags, generation % GENERATIONS, position % MILLISECONDS) + pcm


def is_older(generation: int, than: int) -> bool:
    """Return True if a generation came before another one. Generations are counted in 16 bits and begin at 0 again."""
    return 0 < (than - generation) % GENERATIONS < GENERATIONS // 2
