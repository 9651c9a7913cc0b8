from tests.stores.faults import faults
from tests.stores.steps import steps

__all__ = ["faults", "steps"]
