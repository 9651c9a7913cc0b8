"""Tests of adkwire. No test depends on how fast the machine is: hypothesis gets no deadline."""

from hypothesis import HealthCheck, settings

settings.register_profile("adkwire", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("adkwire")
