"""Pages of metrics in the words of OTLP."""

from __future__ import annotations

import pytest

from slipstream.otel.metrics import metrics_request

PAGE = """\
# HELP nats_msgs_total Messages that came in.
# TYPE nats_msgs_total counter
nats_msgs_total{account="A \\"b\\" \\\\ c",kind="x"} 7
nats_msgs_total{account="B"} 1e3
# TYPE nats_cpu gauge
nats_cpu 0.25

untyped 3 1700000000000
lost NaN
"""


def test_counters_are_sums_and_the_rest_gauges() -> None:
    sent = metrics_request(PAGE, "http://h/metrics", 5)
    [resource] = sent["resourceMetrics"]
    assert {"key": "service.instance.id", "value": {"stringValue": "http://h/metrics"}} in resource["resource"][
        "attributes"
    ]
    msgs, cpu, untyped = resource["scopeMetrics"][0]["metrics"]
    assert (msgs["name"], msgs["description"]) == ("nats_msgs_total", "Messages that came in.")
    assert (msgs["sum"]["isMonotonic"], msgs["sum"]["aggregationTemporality"]) == (True, 2)
    first, second = msgs["sum"]["dataPoints"]
    assert first == {
        "timeUnixNano": "5",
        "asInt": "7",
        "attributes": [
            {"key": "account", "value": {"stringValue": 'A "b" \\ c'}},
            {"key": "kind", "value": {"stringValue": "x"}},
        ],
    }
    assert second["asInt"] == "1000"
    assert cpu["gauge"]["dataPoints"][0]["asDouble"] == 0.25
    assert untyped["gauge"]["dataPoints"][0]["asInt"] == "3"


@pytest.mark.parametrize("page", ["a b c d", 'a{b="c} 1', "a{b=c} 1", "<html>", "a x"])
def test_what_is_no_page_of_metrics(page: str) -> None:
    with pytest.raises(ValueError, match=r"line 1|could not convert"):
        metrics_request(page, "", 0)
