"""The campaigns by name: how many cases, what is counted, what must hold, and what shows that it can fail."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from campaigns import store_runs
from campaigns.figures import Campaign, Figures, Parts, in_one


def model(steps: int) -> Figures:
    """Random histories of a stream against the plain model."""
    from models.stream import StreamModel
    from property.test_stream_machine import StreamMachine

    StreamMachine.steps = 0
    broken: list[str] = []
    while StreamMachine.steps < steps and not broken:
        found = _play(max(min((steps - StreamMachine.steps) // 30, 200), 1))
        broken += [found] if found else []
    done = StreamMachine.steps
    # The control: a model that forgets one rule.
    rule, StreamModel.enforce = StreamModel.enforce, lambda _self: None  # type: ignore[method-assign]
    try:
        noticed = _play(100)
    finally:
        StreamModel.enforce = rule  # type: ignore[method-assign]
    return Figures(
        {"steps": done, "differences": len(broken)},
        broken,
        "a model without limits: " + ("noticed" if noticed else "NOT noticed"),
        bool(noticed),
    )


def _play(examples: int) -> str:
    """So many histories; what went wrong, if anything did."""
    from hypothesis import HealthCheck, Phase, settings
    from hypothesis.stateful import run_state_machine_as_test

    from property.test_stream_machine import StreamMachine

    chosen = settings(
        max_examples=examples,
        stateful_step_count=50,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(StreamMachine, settings=chosen)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:500]
    return ""


def model_encrypted(steps: int) -> Figures:
    """The same on encrypted files, which are searched at each restart."""
    from campaigns.searching import Searched
    from slipstream.jetstream.store.sealed.keys import AtRestCipher
    from support.sealing import sealed_stores, watched_disks

    search = Searched((b"Nats-Msg-Id", b"subjects", b"duplicate_window"))
    with sealed_stores(AtRestCipher.CHACHA), watched_disks(search):
        figures = model(steps)
    return search.added_to(figures, lambda: _play(5))


def oracle(histories: int) -> Figures:
    """Random API scripts asked of this implementation and of nats-server."""
    from conformance import test_js_stream_random as scripts
    from support.jetstream_oracle import Both, Oracle
    from support.jetstream_world import World
    from support.server_process import ServerProcess
    from support.servers import server_binary

    class Counting(Both):
        """Counts what is asked."""

        asked = 0

        def ask(self, *arguments: object, **options: object) -> object:
            Counting.asked += 1
            return super().ask(*arguments, **options)  # type: ignore[arg-type]

    broken: list[str] = []
    with tempfile.TemporaryDirectory(prefix="oracle-") as directory:
        config = f'jetstream {{ store_dir: "{directory}", max_mem: {scripts.MEMORY}, max_file: {scripts.STORAGE} }}\n'
        with ServerProcess(server_binary("real"), Path(directory), config=config) as server:
            client = Oracle(server.port)
            for seed in range(1_000, 1_000 + histories):
                both = Counting(client, World(max_memory=scripts.MEMORY, max_storage=scripts.STORAGE))
                script = scripts.test_configurations if seed % 10 == 0 else scripts.test_histories
                try:
                    script(both, seed)
                except AssertionError as error:
                    broken.append(f"seed {seed}: {error}"[:500])
                both.clear()
            noticed = _misled(client, scripts.test_histories, Counting, World)
            client.close()
    return Figures(
        {"histories": histories, "requests compared": Counting.asked, "differences": len(broken)},
        broken,
        f"a wrong sequence in one of fifty answers: noticed in {noticed} of 40 histories",
        noticed > 0,
    )


def _misled(client: object, script: Callable[..., None], both_of: Callable[..., object], world_of: type) -> int:
    """In how many histories it is noticed that one in fifty answers of ours names another sequence."""
    rng = random.Random(1)
    noticed = 0
    for seed in range(40):
        world = world_of(max_memory=1 << 30, max_storage=10 << 30)
        honest = world.request_all

        def lying(*arguments: object, honest: Callable[..., list[tuple[bytes | None, bytes]]] = honest) -> object:
            answers = honest(*arguments)
            if rng.random() < 0.02:
                return [(head, body.replace(b'"seq":', b'"seq":1')) for head, body in answers]
            return answers

        world.request_all = lying
        both = both_of(client, world)
        try:
            script(both, seed)
        except AssertionError:
            noticed += 1
        world.request_all = honest
        both.clear()  # type: ignore[attr-defined]
    return noticed


def trees_part(cases: range) -> Figures:
    """Random trees of operator mode."""
    from campaigns.trees import trees

    return trees(cases)


def trees_control() -> Figures:
    """Trees whose clients are mixed up."""
    from campaigns.trees import control

    return control()


def consumer_model(steps: int) -> Figures:
    """Consumers and retention against a plain model."""
    from campaigns.consumers import model

    return model(steps)


def consumer_model_encrypted(steps: int) -> Figures:
    """The same on encrypted files."""
    from campaigns.consumers import model_encrypted

    return model_encrypted(steps)


def consumer_kill(cycles: int) -> Figures:
    """kill -9 while consumers work."""
    from campaigns.consumers import deaths

    return deaths(cycles)


def consumer_kill_encrypted(numbers: range) -> Figures:
    """The same with encryption at rest."""
    from campaigns.consumers import deaths_encrypted

    return deaths_encrypted(numbers)


def consumer_kill_encrypted_control() -> Figures:
    """nats-server, and files that are not encrypted."""
    from campaigns.consumers import control_of_deaths_encrypted

    return control_of_deaths_encrypted()


def hostile(rounds: int) -> Figures:
    """Every resource misused by a tenant with limits of 1 MB."""
    from campaigns.hostile import ATTACKS, Hostile, Paid

    paid: list[tuple[str, Paid]] = []
    for _ in range(rounds):
        for name, attack in ATTACKS.items():
            with tempfile.TemporaryDirectory(prefix="hostile-") as directory:
                paid.append((name, Hostile(Path(directory)).attacked(attack)))
    seen = 0
    for name in ("open_batches", "message_ids", "staged_parts"):
        with tempfile.TemporaryDirectory(prefix="hostile-") as directory:
            seen += bool(Hostile(Path(directory), limited=False).attacked(ATTACKS[name]).broken)
    slowest, worst = max(paid, key=lambda entry: entry[1].p99_ns)
    return Figures(
        {
            "attacks": len(paid),
            "most memory one cost, MiB": max(one.memory_bytes for _, one in paid) >> 20,
            "most disk, MiB": max(one.disk_bytes for _, one in paid) >> 20,
            "most descriptors": max(one.descriptors for _, one in paid),
            "worst p99 of a neighbour's ping afterwards": f"{worst.p99_ns / 1e6:.1f} ms ({slowest})",
            "violations (limits, neighbour's API, restart)": sum(len(one.broken) for _, one in paid),
        },
        [broken for _, one in paid for broken in one.broken],
        f"an account without limits: noticed in {seen} of 3 attacks",
        seen == 3,
    )


def linearizable(cycles: int) -> Figures:
    """One order of events for all clients of a bucket."""
    import asyncio

    from campaigns.linearizable import Linear, Linearizable

    def play(count: int, operations: int, *, eager: str = "", kill: bool = True) -> Linear:
        with tempfile.TemporaryDirectory(prefix="linear-") as directory:
            tried = Linearizable(Path(directory), eager=eager, seed=count)
            return asyncio.run(tried.run(count, operations=operations, kill=kill))

    found = play(cycles, 3_000)
    controls = {eager: play(1, 3_000, eager=eager, kill=False) for eager in ("removals", "reads")}
    return Figures(
        {
            "deaths": cycles,
            "operations": len(found.history.events),
            "updates watched": found.watched,
            "own writes read without waiting for their acks": found.own_writes,
            "what no order explains": len(found.broken),
        },
        found.broken[:50],
        f"removals seen before they are committed: {len(controls['removals'].broken)} found; "
        f"readers that do not wait for what was received: {len(controls['reads'].broken)} found",
        all(control.broken for control in controls.values()),
    )


def linearizable_encrypted(cycles: int) -> Figures:
    """The same on encrypted files, which are searched at the end."""
    import asyncio

    from campaigns.linearizable import Linear, Linearizable

    def play(count: int, operations: int, *, encrypted: bool = True, eager: str = "") -> tuple[Linear, list[str]]:
        with tempfile.TemporaryDirectory(prefix="linear-") as directory:
            tried = Linearizable(Path(directory), eager=eager, encrypted=encrypted, seed=count)
            return asyncio.run(tried.run(count, operations=operations, kill=not eager)), tried.readable()

    found, readable = play(cycles, 3_000)
    noticed, _ = play(1, 3_000, eager="removals")
    _, plain = play(1, 100, encrypted=False)
    return Figures(
        {
            "deaths": cycles,
            "operations": len(found.history.events),
            "updates watched": found.watched,
            "what no order explains": len(found.broken),
            "files in which a message, a name or a key can be read": len(readable),
        },
        (found.broken + readable)[:50],
        f"removals seen before they are committed: {len(noticed.broken)} found; "
        f"without a key {len(plain)} places can be read",
        bool(noticed.broken and plain),
    )


def fuzz_part(executions: range) -> Figures:
    """So many executions of everything that reads bytes of others, under a fuzzer; their first number is the seed."""
    from campaigns.fuzzing import fuzz
    from fuzz.catalogue import TARGETS

    found = fuzz(len(executions), TARGETS.values(), seed=executions.start + 1)
    return Figures(
        {
            "targets": str(len(found)),
            "executions of each, fewer of those that cost more": len(executions),
            "executions": sum(one.executions for one in found),
            "edges reached": float(sum(one.coverage for one in found)),
            "broken promises, findings of sanitizers, hangs, excess of memory": sum(bool(one.broken) for one in found),
        },
        [one.broken for one in found if one.broken],
    )


def fuzz_control() -> Figures:
    """Faults that were planted."""
    from campaigns.fuzzing import PLANTED_RUNS, fuzz
    from fuzz import planted

    with tempfile.TemporaryDirectory(prefix="fuzz-") as nothing_known:
        found = fuzz(PLANTED_RUNS, planted.TARGETS, corpora=Path(nothing_known))
    return Figures(
        {},
        [],
        "; ".join(f"{one.name}: {'found' if one.broken else 'NOT found'} in {one.executions:,}" for one in found),
        all(one.broken for one in found),
    )


def injection(calls_of_each: int) -> Figures:
    """An exception in every function of JetStream."""
    from crash.test_injection import calls_of, failures, without_guard
    from support.injection import points
    from support.injection_world import SCENARIOS

    tried, functions, broken = 0, set(), []
    for name in SCENARIOS:
        calls = calls_of(name)
        chosen = points(calls, calls_of_each)
        functions |= {calls[number] for number in chosen}
        tried += len(chosen)
        broken += failures(name, chosen)
    noticed = without_guard()
    return Figures(
        {
            "scenarios": len(SCENARIOS),
            "functions": len(functions),
            "exceptions": tried,
            "streams that stand still, answers missing, counts that stay": len(broken),
        },
        broken,
        f"a committer without its guard: {len(noticed)} complaints after one exception",
        bool(noticed),
    )


def clusters(histories: int) -> Figures:
    """Random histories of clusters."""
    from campaigns.clusters import cluster_histories

    return cluster_histories(histories)


def edge(days: int) -> Figures:
    """A leaf that works on its own for days."""
    from campaigns.edge import edge

    return edge(days)


def partitions(count: int) -> Figures:
    """Links that are cut and heal."""
    from campaigns.partitions import partitions

    return partitions(count)


def raft_part(seeds: range) -> Figures:
    """Seeds of simulated groups."""
    from campaigns.raft_seeds import raft_seeds  # needs the Raft core, which not everybody has built

    return raft_seeds(seeds)


def raft_control() -> Figures:
    """Simulated groups that break a promise."""
    from campaigns.raft_seeds import raft_mutants

    return raft_mutants()


def raft_encrypted_part(seeds: range) -> Figures:
    """Storms on encrypted disks."""
    from campaigns.raft_sealed import sealed_seeds

    return sealed_seeds(seeds)


def raft_encrypted_control() -> Figures:
    """Broken promises, and disks that are not encrypted."""
    from campaigns.raft_sealed import sealed_control

    return sealed_control()


def replicated_part(seeds: range) -> Figures:
    """Clusters of real processes in trouble."""
    from campaigns.replicated import replicated_runs

    return replicated_runs(seeds)


def replicated_control() -> Figures:
    """A cluster whose streams have one copy."""
    from campaigns.replicated import replicated_control

    return replicated_control()


_KILL, _POWER = store_runs.deaths(power=False), store_runs.deaths(power=True)
_KILL_ENCRYPTED = store_runs.deaths(power=False, encrypted=True)
_POWER_ENCRYPTED = store_runs.deaths(power=True, encrypted=True)
_DISK_ERRORS_ENCRYPTED = store_runs.disk_errors_encrypted()
_CONSUMER_KILL_ENCRYPTED = Parts(
    consumer_kill_encrypted, consumer_kill_encrypted_control, store_runs.WHAT_CONSUMERS_KEEP
)
_REPLICAS = ("src/slipstream/jetstream", "src/slipstream/kernels", "src/slipstream/replication", "raft")
"""What decides how replicas agree."""
_VERDICTS = (
    *(f"src/slipstream/{name}" for name in ("accounts", "auth", "kernels", "protocol", "routing", "subjects")),
    *(f"tests/support/{name}.py" for name in ("random_trees", "shared_clients", "shared_trees")),
    "tests/campaigns/trees.py",
)
"""What decides who is let in, and who gets a message."""

_READERS = (
    *(
        f"src/slipstream/{name}"
        for name in ("auth", "config", "jetstream/backup", "jetstream/gojson", "jetstream/store", "kernels", "protocol")
    ),
    "tests/campaigns/fuzzing.py",
    "tests/fuzz",
)
"""What reads bytes of others."""


CAMPAIGNS = {
    "raft": Campaign(
        "Agreement of replicas",
        "One leader a term, one entry an index, nothing acknowledged lost, whatever network, power and clocks do.",
        in_one(raft_part, raft_control),
        100_000,
        Parts(raft_part, raft_control, (*_REPLICAS, "tests/support", "tests/campaigns")),
    ),
    "linearizable": Campaign(
        "One order of events",
        "Everything that many clients write, read, list and watch in a bucket, over deaths, is explained by one order.",
        linearizable,
        60,
    ),
    "raft-encrypted": Campaign(
        "Agreement of replicas, encrypted",
        "The same of replicas whose servers encrypt their files, each with a key of its own; no file can be read.",
        in_one(raft_encrypted_part, raft_encrypted_control),
        2_000,
        Parts(raft_encrypted_part, raft_encrypted_control, (*_REPLICAS, "tests/support", "tests/campaigns")),
    ),
    "linearizable-encrypted": Campaign(
        "One order of events, encrypted",
        "The same with encryption at rest, and no file, name or log tells anything of what was stored.",
        linearizable_encrypted,
        20,
    ),
    "kill": Campaign(
        "kill -9 under load",
        "Nothing acknowledged is lost, stored twice or renumbered when the process is killed at any moment.",
        in_one(_KILL.run, _KILL.control),
        1_000,
        _KILL,
    ),
    "power": Campaign(
        "Power cuts under load",
        "The same when every write that was not synced is forgotten, wholly or in part.",
        in_one(_POWER.run, _POWER.control),
        300,
        _POWER,
    ),
    "crash-states": Campaign(
        "Crash states",
        "Whatever a crash before any call to the disk can leave is opened as what was promised.",
        store_runs.crash_states,
        60_000,
    ),
    "at-rest": Campaign(
        "Damage at rest",
        "The server starts, answers no wrong bytes, loses at most the record that was hit by a bit flip, and says so.",
        store_runs.at_rest,
        10_000,
    ),
    "kill-encrypted": Campaign(
        "kill -9 under load, encrypted",
        "The same with encryption at rest; and no file, name or log tells anything of what was stored.",
        in_one(_KILL_ENCRYPTED.run, _KILL_ENCRYPTED.control),
        300,
        _KILL_ENCRYPTED,
    ),
    "power-encrypted": Campaign(
        "Power cuts under load, encrypted",
        "The same with encryption at rest, also of what the disk forgot.",
        in_one(_POWER_ENCRYPTED.run, _POWER_ENCRYPTED.control),
        300,
        _POWER_ENCRYPTED,
    ),
    "crash-states-encrypted": Campaign(
        "Crash states, encrypted",
        "Whatever a crash before any call to the disk can leave of encrypted files is opened as what was promised.",
        store_runs.crash_states_encrypted,
        60_000,
    ),
    "at-rest-encrypted": Campaign(
        "Damage to encrypted files",
        "The server starts, answers no wrong bytes, loses at most the frame that was hit by a bit flip, and says so.",
        store_runs.at_rest_encrypted,
        10_000,
    ),
    "disk-errors-encrypted": Campaign(
        "Errors of the disk at every call, encrypted",
        "What fails is refused, never acknowledged; other streams notice nothing; service resumes by itself; and"
        " no file can be read.",
        in_one(_DISK_ERRORS_ENCRYPTED.run, _DISK_ERRORS_ENCRYPTED.control),
        10_000,
        _DISK_ERRORS_ENCRYPTED,
    ),
    "model-encrypted": Campaign(
        "Model, encrypted",
        "An encrypted stream does what a plain model of it does, over random histories with restarts and power cuts,"
        " and no file can be read.",
        model_encrypted,
        50_000,
    ),
    "consumer-model-encrypted": Campaign(
        "Consumers and retention against a model, encrypted",
        "The same as of plain files, and no file can be read.",
        consumer_model_encrypted,
        50_000,
    ),
    "consumer-kill-encrypted": Campaign(
        "kill -9 while consumers work, encrypted",
        "A message whose double ack was confirmed never comes again, one that was not acknowledged does, a terminated"
        " one has exactly one dead letter; and no file, name or log tells anything of it.",
        in_one(_CONSUMER_KILL_ENCRYPTED.run, _CONSUMER_KILL_ENCRYPTED.control),
        100,
        _CONSUMER_KILL_ENCRYPTED,
    ),
    "tampers": Campaign(
        "Tampers with chained streams",
        "Whoever changes the files of a tamper-evident stream is found, whatever he makes right again.",
        store_runs.tampers,
        1_000,
    ),
    "trees": Campaign(
        "Trees of operator mode",
        "Random trees of accounts, permissions, imports, activations and revocations: nats-server and ours let in"
        " the same clients, refuse them the same, and carry the same messages; a deny holds for the concrete subject.",
        in_one(trees_part, trees_control),
        2_000,
        Parts(trees_part, trees_control, _VERDICTS),
    ),
    "disk-errors": Campaign(
        "Errors of the disk at every call",
        "What fails is refused, never acknowledged; other streams notice nothing; service resumes by itself.",
        store_runs.disk_errors,
        40,
    ),
    "model": Campaign(
        "Model",
        "A stream does what a plain model of it does, over random histories with restarts and power cuts.",
        model,
        50_000,
    ),
    "oracle": Campaign(
        "nats-server",
        "Random API scripts get the same answers from this implementation and from nats-server.",
        oracle,
        300,
    ),
    "consumer-model": Campaign(
        "Consumers and retention against a model",
        "No consumer is stuck, nothing acknowledged is left over, nothing is removed too early, and pending is exact,"
        " over random histories with restarts and power cuts.",
        consumer_model,
        200_000,
    ),
    "replicated": Campaign(
        "Replicated streams on real processes",
        "Nothing acknowledged is lost, doubled or different on any server, and a bucket has one order of events, while "
        "servers are killed, stopped and cut off.",
        in_one(replicated_part, replicated_control),
        100,
        Parts(replicated_part, replicated_control, ("src", "raft", "tests/campaigns")),
    ),
    "clusters": Campaign(
        "Topologies whose links break",
        "Whatever servers of a topology (routes, leafs, gateways; of this server, of nats-server, and mixed) are cut"
        " off, killed and healed: where links stand, a message reaches everybody"
        " who wants it once and one of each queue group, nothing is doubled, interest converges, none is left over.",
        clusters,
        200,
    ),
    "partitions": Campaign(
        "Servers that are parted and joined again",
        "After each partition of routes, leaf links or gateways interest converges and a message reaches everybody"
        " once; no interest, link, descriptor, task or memory is left over.",
        partitions,
        1_000,
    ),
    "edge": Campaign(
        "Days at the edge",
        "What is stored on either side of a leaf link comes to the other once, in order, however long the link is away,"
        " in compressed time.",
        edge,
        14,
    ),
    "hostile": Campaign(
        "A hostile tenant",
        "An account with limits of 1 MB that misuses every resource costs little memory, disk and descriptors, leaves"
        " the API to its neighbour, and nothing it stored keeps the server from starting.",
        hostile,
        5,
    ),
    "fuzz": Campaign(
        "Fuzzing",
        "Whatever bytes come in over the wire, in a file, a backup, a configuration: the plain model's answer or a"
        " declared error, the same however they are cut, in bounded memory, and nothing that a sanitizer objects to.",
        in_one(fuzz_part, fuzz_control),
        100_000_000,
        Parts(fuzz_part, fuzz_control, _READERS),
    ),
    "injection": Campaign(
        "An exception in every function",
        "Whatever function of JetStream raises, no stream stands still, everybody is answered, and all counts return to"
        " zero.",
        injection,
        4,
    ),
    "consumer-kill": Campaign(
        "kill -9 while consumers work",
        "A message whose double ack was confirmed never comes again, one that was not acknowledged does, and a"
        " terminated one has exactly one dead letter.",
        consumer_kill,
        100,
    ),
}
