"""What a conversation knows of the connection to its model, and does when that is lost and found again."""

from adkwire.runs.audience import Audience
from adkwire.runs.carried import Floor, Sign
from adkwire.runs.watched_model import Doing


class Watch:
    """The `Watcher` of a conversation."""

    def __init__(self, audience: Audience, floor: Floor) -> None:
        self._audience = audience
        self._floor = floor

    def doing(self) -> Doing:
        """What would be lost with the connection: also words that are being said to it, or that nobody listens to."""
        turns = [self._floor.turns.current, *(carried.turn for carried in self._floor.carried.values())]
        under_way = [turn for turn in turns if turn is not None and not turn.over]
        if not under_way:
            return Doing.IDLE
        return Doing.HELD if all(turn.calls for turn in under_way) else Doing.ANSWERING

    def reconnecting(self) -> None:
        """The connection was lost and is sought again. What was being said beside calls that wait does not go on."""
        for carried in self._floor.carried.values():
            carried.put(Sign.HUSH)
        self._audience.notice("warning", "reconnecting", "The connection to the model was lost; trying again.")

    def reconnected(self) -> None:
        """It is there again."""
        self._audience.notice("info", "reconnected", "The connection to the model is back.")

    def going_away(self) -> None:
        """The model is about to end it."""
        self._audience.notice("info", "go-away", "The model ends this connection soon; another one is opened.")
