"""Campaigns against one server's files: deaths, crash states, damage, errors of the disk; plain and encrypted."""

from __future__ import annotations

import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

from campaigns import at_rest as resting
from campaigns import disk_errors as failing
from campaigns.at_rest import damage
from campaigns.deaths import KEY, SHORT_WINDOW_NS, STREAMS, Deaths, Outcome, readable
from campaigns.disk_errors import ErrorTally, every_call, without_syncs
from campaigns.figures import Figures, Parts
from campaigns.searching import Searched
from slipstream.jetstream.store.sealed.keys import AtRestCipher
from support.raw_files import of_directory, told
from support.sealing import sealed_stores, watched_disks

_WHAT_STORES = (
    *(f"src/slipstream/jetstream/{name}" for name in ("store", "stream")),
    *(f"src/slipstream/kernels/{name}" for name in ("log", "index")),
    *(f"tests/campaigns/{name}.py" for name in ("deaths", "forgetful_disk", "forgetful_server", "load")),
)
WHAT_CONSUMERS_KEEP = (
    *_WHAT_STORES[:4],
    "src/slipstream/jetstream/consumer",
    "tests/campaigns/consumer_deaths.py",
    "tests/support/raw_files.py",
)
_WORDS_OF_DEATHS = (*(name.encode() for name in STREAMS if len(name) > 5), b"PLAIN.", b"Nats-Msg-Id", b"description")
DEATHS_OF_A_DIRECTORY = 25
"""Then another one is begun: each start looks at all that was stored before."""


def _deaths(numbers: range, *, power: bool, encrypted: bool = False) -> Figures:
    """As many deaths as there are numbers; the first one decides the moments."""
    found = Outcome()
    while found.cycles < len(numbers) and not found.broken:
        most = min(len(numbers) - found.cycles, DEATHS_OF_A_DIRECTORY)
        with tempfile.TemporaryDirectory(prefix="deaths-") as directory:
            run = Deaths(Path(directory), power=power, encrypted=encrypted, seed=numbers[found.cycles])
            found.add(run.run(most))
            if encrypted:
                kept = of_directory(Path(directory, "store"), Path(directory, "disk"))
                found.readable += told(kept, _WORDS_OF_DEATHS, KEY.encode(), run._server.log_lines)
    secret = {"files in which a message, a name or a key can be read": len(found.readable)} if encrypted else {}
    return Figures(
        {
            "deaths": found.cycles,
            "messages acknowledged": found.acked,
            "sent again and recognised": found.sent_again,
            "acknowledged and lost": len(found.lost),
            "duplicates with a message id": len(found.duplicates),
            "sequence regressions": len(found.regressions),
            "wrong bytes": len(found.wrong),
            "streams or configurations lost": len(found.streams_lost),
            "starts refused": found.starts_refused,
            **secret,
        },
        found.broken,
    )


def _control_of_deaths(*, power: bool, encrypted: bool = False) -> Figures:
    """The same load and the same checks, and servers that break the promises."""
    with tempfile.TemporaryDirectory(prefix="deaths-") as directory:
        careless = Deaths(Path(directory), power=power, drops_syncs=True).run(1)
    with tempfile.TemporaryDirectory(prefix="deaths-") as directory:
        forgetful = Deaths(Path(directory), power=power, window_ns=SHORT_WINDOW_NS).run(10)
        told = readable(Path(directory))
    lost = f"{len(careless.lost)} of {careless.acked} acknowledged messages and {len(careless.streams_lost)} streams"
    return Figures(
        {},
        control=f"a server whose syncs do nothing: {lost} lost after one death; "
        f"one that forgets ids at once: {len(forgetful.duplicates)} duplicates"
        + (f"; without a key {len(told)} files can be read" if encrypted else ""),
        control_found=bool(careless.lost and careless.streams_lost and forgetful.duplicates and told),
    )


def deaths(*, power: bool, encrypted: bool = False) -> Parts:
    """A campaign of deaths, by kill -9 or with the power cut; it can go on another day."""
    return Parts(
        partial(_deaths, power=power, encrypted=encrypted),
        partial(_control_of_deaths, power=power, encrypted=encrypted),
        _WHAT_STORES,
    )


def crash_states(states: int) -> Figures:
    """Every call to the disk, and what a crash there could leave."""
    from crash.test_crash_states import SCENARIOS, enumerate_states
    from support.store_history import Broken

    checked, seed, broken = 0, 0, []
    while checked < states and not broken:
        for scenario in SCENARIOS.values():
            try:
                checked += enumerate_states(scenario, images=12, seed=seed)
            except Broken as error:
                broken.append(f"{scenario.__name__}, seed {seed}: {error}")
            if checked >= states:
                break
        seed += 1
    noticed = 0
    for name in ("appending", "rolling", "uniting", "configuring"):
        try:
            enumerate_states(SCENARIOS[name], images=2, seed=3, drops_syncs=True)
        except Broken:
            noticed += 1
    return Figures(
        {"states": checked, "scenarios": ", ".join(SCENARIOS), "violations": len(broken)},
        broken,
        f"a disk whose syncs do nothing: noticed in {noticed} of 4 scenarios",
        noticed == 4,
    )


def crash_states_encrypted(states: int) -> Figures:
    """The same of encrypted stores, each of which is searched before it is opened."""
    from crash.test_crash_states import SCENARIOS, enumerate_states

    search = Searched((b"<secret-", b"configuration", b'"name"'))
    with sealed_stores(), watched_disks(search):
        figures = crash_states(states)
    return search.added_to(figures, lambda: enumerate_states(SCENARIOS["configuring"], images=1, seed=1, calls=0.1))


def at_rest(flips: int) -> Figures:
    """Damage at rest; a quarter as many cuts and zeroed pages as flips."""
    counts = {"flip": flips, "cut": flips // 4, "zero": flips // 4, "swap": flips // 8, "remove": flips // 20}
    found = damage(counts, seed=flips)
    control = damage({"flip": 300}, seed=1, report=False)
    lost, most = found.lost, found.lost_most
    return Figures(
        {
            "single-bit flips": found.cases["flip"],
            "most messages lost to one flip": most["flip"],
            "messages lost to all flips": lost["flip"],
            "files cut short": found.cases["cut"],
            "pages zeroed": found.cases["zero"],
            "old pages put back": found.cases["swap"],
            "files removed": found.cases["remove"],
            "directories set aside": found.quarantined,
            "violations (no start, wrong bytes, silent loss, other stream hit)": len(found.violations),
        },
        found.violations,
        f"the same without looking at reports: {len(control.violations)} silent losses in 300 flips",
        bool(control.violations),
    )


def at_rest_encrypted(flips: int) -> Figures:
    """Damage to encrypted files, each of which is searched before it is opened."""
    search = Searched(resting.WORDS)
    with sealed_stores(), watched_disks(search):
        figures = at_rest(flips)
    return search.added_to(figures, lambda: damage({"flip": 1}, seed=1))


def tampers(count: int) -> Figures:
    """Changes to the files of chained streams by somebody who makes checksums right again."""
    from crash.test_tampering import tamper, unnoticed_without_chain
    from support.tampering import TAMPERS

    try:
        found, broken = tamper(count, seed=2), []
    except AssertionError as error:
        found, broken = Counter[str](), [str(error)[:500]]
    served = unnoticed_without_chain()
    return Figures(
        {
            "tampers": found.total(),
            "kinds": len(TAMPERS) + 1,
            "fewest of one kind": min(found.values(), default=0),
            "not found": len(broken),
        },
        broken,
        f"a stream without a chain: {served} of 20 changes are served as if they had been published",
        served > 10,
    )


DISK_ERROR_ROUNDS = 40
"""Of the script, in the long form."""


def disk_errors(rounds: int) -> Figures:
    """EIO and ENOSPC at every call."""
    figures, control = _errors_found(every_call(rounds=rounds)), _control_of_errors()
    return Figures(figures.counts, figures.broken, control.control, control.control_found)


def _errors_found(found: ErrorTally) -> Figures:
    return Figures(
        {
            "calls of a run": f"{found.calls:,}",
            "runs, one for each call with EIO and with ENOSPC": found.runs,
            "requests refused": found.refusals,
            "violations (false acks, lost acks, other stream hit, no resumption)": len(found.violations),
        },
        found.violations,
    )


def _control_of_errors() -> Figures:
    control = without_syncs(rounds=6)
    text = f"a disk whose syncs do nothing: {len(control)} broken promises after a crash"
    return Figures({}, control=text, control_found=bool(control))


def _errors_encrypted(runs: range) -> Figures:
    """Runs by number, each of them a call and an error; what is behind the last call has none."""
    search = Searched(failing.WORDS)
    with sealed_stores(AtRestCipher.CHACHA), watched_disks(search):
        return search.counted_in(_errors_found(every_call(rounds=DISK_ERROR_ROUNDS, only=runs)))


def _control_of_errors_encrypted() -> Figures:
    search = Searched(failing.WORDS)
    with sealed_stores(AtRestCipher.CHACHA), watched_disks(search):
        control = _control_of_errors()
    return search.controlled(control, lambda: without_syncs(rounds=2))


def disk_errors_encrypted() -> Parts:
    """The same in encrypted files, all of which are searched after the crash at the end."""
    sources = (*_WHAT_STORES[:4], "tests/campaigns/disk_errors.py", "tests/support/raw_files.py")
    return Parts(_errors_encrypted, _control_of_errors_encrypted, sources)
