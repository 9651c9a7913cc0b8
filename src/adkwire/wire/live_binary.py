"""Binary frames of a live socket, both ways: a head of 8 bytes, little endian, and then sound or a picture.

| bytes | what            |                                                                             |
|-------|-----------------|-----------------------------------------------------------------------------|
| 1     | kind            | 1 sound (16 bit, one channel; up 16 kHz, down the rate of `ready`), 2 JPEG, 3 PNG |
| 1     | flags           | bit 0: the last of a turn                                                   |
| 2     | generation      | sound of an older one than `interrupted` names is void                      |
| 4     | position        | where in its generation it begins, in milliseconds                          |
"""

import struct

BINARY = struct.Struct("<BBHI")
SOUND, JPEG, PNG = 1, 2, 3
_LAST = 1
GENERATIONS = 2**16
POSITIONS = 2**32


def encode_sound(pcm: bytes, generation: int, position: int, *, last: bool) -> bytes:
    """A piece of what is said, as a binary frame."""
    flags = _LAST if last else 0
    return BINARY.pack(SOUND, flags, generation % GENERATIONS, position % POSITIONS) + pcm


def is_older(generation: int, than: int) -> bool:
    """Whether a generation came before another; they are counted in 16 bits, and begin anew."""
    return 0 < (than - generation) % GENERATIONS < GENERATIONS // 2
