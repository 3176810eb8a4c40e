"""Numbers that bound what `monitoring` does, each with its unit and its reason."""

from __future__ import annotations

from typing import Final

from slipstream.units import KIB, MILLISECOND_NS, MINUTE_NS, SECOND_NS

# Connections to the monitoring port at once: scrapers, dashboards and probes are few; more is a flood.
MONITOR_CONNECTIONS_MAX: Final = 256
# Request line and headers of a monitoring request, and a body nobody needs.
MONITOR_REQUEST_BYTES_MAX: Final = 64 * KIB
MONITOR_BODY_BYTES_MAX: Final = 64 * KIB
# Time to send a request (nats-server's number), to read its answer, and between two requests.
MONITOR_READ_TIMEOUT_NS: Final = 5 * SECOND_NS
MONITOR_WRITE_TIMEOUT_NS: Final = 30 * SECOND_NS
MONITOR_IDLE_TIMEOUT_NS: Final = 2 * MINUTE_NS
# Options in a request to the system account: a few dozen bytes in earnest. Any client may send them, and reading a
# megabyte of JSON takes a tenth of a second.
SYSTEM_REQUEST_BYTES_MAX: Final = 64 * KIB
# Entries of a page of connections, subscriptions or accounts when no limit is asked for.
MONITOR_PAGE: Final = 1024
# Accounts with metrics of their own: each is several time series for ever.
MONITOR_METRICS_ACCOUNTS_MAX: Final = 1000
# Streams and consumers likewise; each is about ten lines of half a kilobyte, so a scrape stays below ten megabytes.
MONITOR_METRICS_STREAMS_MAX: Final = 1000
MONITOR_METRICS_CONSUMERS_MAX: Final = 1000
# STATSZ events: the first after this, then twice as long each time up to the regular interval.
STATSZ_FIRST_NS: Final = 250 * MILLISECOND_NS
STATSZ_INTERVAL_NS: Final = 10 * SECOND_NS
# Connection counts of an account are repeated after this, for listeners that came late.
ACCOUNT_CONNECTIONS_INTERVAL_NS: Final = 30 * SECOND_NS
# Questions that accounts ask of all servers: how long answers are passed on, and how many are kept in mind.
OWN_REQUEST_NS: Final = 10 * SECOND_NS
OWN_REQUESTS_MAX: Final = 1000

# Monitoring work: entries of a page built before messages get their turn (some milliseconds), the share of the event
# loop's time it may take in the long run, the time it may take at once, and jobs that may wait for that.
MONITOR_STEP_ENTRIES: Final = 256
MONITOR_SHARE_PERCENT: Final = 25
MONITOR_BURST_NS: Final = 500 * MILLISECOND_NS
MONITOR_JOBS_MAX: Final = 1000
# Lines in the log about requests that are lost because of that: strangers can cause them.
MONITOR_COMPLAINT_INTERVAL_NS: Final = 10 * SECOND_NS
