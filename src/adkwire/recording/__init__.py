"""Recordings of chats in files, and a backend that replays them.

Recording: `recorder.py` writes what is sent and received, `recorded_log.py` hands it the chunks of runs,
`redacted_lines.py` keeps secrets out, `files.py` names and opens the files. Replay: `replay.py` answers in the place
of a `Bridge`, `replay_chat.py` has the state of each replayed chat.
"""
