"""adkwire's routes in a FastAPI app with API keys for several users.

API_KEYS="alice=first-key,bob=second-key" uvicorn fastapi_app:app --app-dir examples

Every user has chats of their own: a chat of Alice is a 404 for Bob.
"""

import hmac
import os

from fastapi import FastAPI
from offline_agent import root_agent
from starlette.requests import HTTPConnection

from adkwire import Bridge, Settings, Unauthorized, User


def authenticate(connection: HTTPConnection) -> User:
    """Return the user whose key the request has."""
    given = connection.headers.get("authorization", "").removeprefix("Bearer ").encode()
    for entry in os.environ.get("API_KEYS", "").split(","):
        name, _, key = entry.partition("=")
        if key and hmac.compare_digest(given, key.encode()):
            return User(name)
    raise Unauthorized("A valid key is needed.", hint="Send it as `Authorization: Bearer <key>`.")


settings = Settings(
    db=os.environ.get("CHATS", "memory:"),
    allow_origin=("http://localhost:3000",),
    allow_host=("chat.example.com",),
)
bridge = Bridge(root_agent, settings=settings, authenticate=authenticate)

app = FastAPI(title="An app of one's own")
app.include_router(bridge.router())


@app.get("/hello")
async def hello() -> dict[str, str]:
    """Answer a route of the app itself."""
    return {"hello": "world"}
