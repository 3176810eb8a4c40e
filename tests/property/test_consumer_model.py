"""Consumers and retention against a plain model, with restarts and power cuts. Long form: `campaigns.consumers`."""

from __future__ import annotations

from hypothesis import settings

from support.consumer_machine import ConsumersMachine

TestConsumers = ConsumersMachine.TestCase
TestConsumers.settings = settings(stateful_step_count=40)
