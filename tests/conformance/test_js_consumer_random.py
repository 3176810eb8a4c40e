"""Random lives of consumers: nats-server and ours deliver, count and remove the same."""

import random

import pytest

from support.consumer_histories import History
from support.consumer_oracle import ListeningOracle


@pytest.mark.parametrize("storage", ["memory", "file"])
@pytest.mark.parametrize("seed", range(5))
def test_histories(clients: list[ListeningOracle], seed: int, storage: str) -> None:
    history = History(clients, random.Random(f"{storage} {seed}"), storage)
    try:
        history.run(40)
    finally:
        history.finish()
