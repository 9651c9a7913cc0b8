"""An emulator of the Gemini API on 127.0.0.1, for tests with ADK's real `Gemini` class.

`emulator.py` is the server. `generate_content.py` has the steps and the JSON of its REST methods, `live_protocol.py`
those of the Live API. `live_sessions.py` reads what Live clients send, `live_responder.py` plays the model's turns,
and `session_conversation.py` has the contents of a session.
"""
