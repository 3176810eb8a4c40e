"""What the runs of other projects' suites are taken for."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tools.compare_etcd import SHARED, facts
from tools.compare_exporters import metrics
from tools.run_client_suites import (
    NotAvailable,
    Suite,
    checkout,
    differences,
    read_go,
    read_junit,
    to_run_again,
    with_second_chance,
)


def test_outcomes_of_pytest(tmp_path: Path) -> None:
    report = tmp_path / "r.xml"
    cases = '<testcase classname="a" name="x"/><testcase classname="a" name="y"><failure/></testcase>'
    report.write_text(
        f'<testsuites><testsuite>{cases}<testcase classname="b" name="z"><skipped/></testcase></testsuite></testsuites>'
    )
    assert read_junit(report) == {"a::x": "passed", "a::y": "failure", "b::z": "skipped"}


def test_outcomes_of_go() -> None:
    output = 'FAIL words\n{"Action":"output","Package":"p","Test":"T"}\n{"Action":"pass","Package":"p","Test":"T/a"}\n'
    output += '{"Action":"fail","Package":"p","Test":"T"}\n{"Action":"pass","Package":"p"}\n'
    output += '{"Action":"skip","Package":"p","Test":"T/7ec567c9-209d-4c69-8b4d-4d3d22c47245"}\n'
    assert read_go(output) == {"p::T/a": "passed", "p::T": "fail", "p::T/<uuid>": "skipped"}


def test_a_test_that_passes_the_second_time_is_flaky() -> None:
    first = {"a": "passed", "b": "failure", "c": "error", "d": "skipped"}
    outcomes, flaky = with_second_chance(first, {"b": "passed", "c": "error"})
    assert outcomes == {"a": "passed", "b": "passed", "c": "error", "d": "skipped"}
    assert flaky == ["b"]


def test_tests_that_a_process_took_with_it_are_run_again() -> None:
    began = '{"Action":"run","Package":"p","Test":"A"}\n{"Action":"pass","Package":"p","Test":"A"}\n'
    first = read_go(began + '{"Action":"run","Package":"p","Test":"B"}\npanic: send on closed channel\n')
    again = to_run_again(first, ["p::A", "p::B", "p::C"])
    assert (first, again) == ({"p::A": "passed", "p::B": "fail"}, ["p::B", "p::C"])
    outcomes, flaky = with_second_chance(first, {"p::B": "passed", "p::C": "passed"})
    assert (set(outcomes.values()), flaky) == ({"passed"}, ["p::B"])


def test_what_counts_is_what_passes_with_nats_server() -> None:
    real = {"a": "passed", "b": "failure", "c": "passed", "d": "passed"}
    assert differences(real, {"a": "passed", "b": "failure", "c": "failure"}) == ["c", "d"]


def test_a_clone_is_edited_or_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.go").write_text("connect(own)\n")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=source, check=True)
    edited = Suite("one", "", "go", edits=(("a.go", "connect(own)", "connect(given)"),))
    assert (checkout(edited, tmp_path, str(source)) / "a.go").read_text() == "connect(given)\n"
    changed = Suite("two", "", "go", edits=(("a.go", "open(own)", "open(given)"),))
    for _ in range(2):  # nor is it taken as it is the next time
        with pytest.raises(NotAvailable, match="not as it was"):
            checkout(changed, tmp_path, str(source))


def test_metrics_are_compared_by_name_and_labels() -> None:
    page = '# HELP nats_a b\nnats_a{x="1",y="a\\"}b"} 4\nnats_a{y="2",x="3"} 5\nnats_b 1\ngo_threads 3\n'
    assert metrics(page, ("nats_",)) == {("nats_a", ("x", "y")), ("nats_b", ())}


def test_what_of_an_etcd_load_does_not_depend_on_who_was_faster() -> None:
    def report(last: int, value: str, counted: list[str]) -> dict[str, Any]:
        steps = ["create /a: true at +1", f"create /load/last: true at +{last}"]
        return {"steps": steps, "events": {"/a": [f"PUT {value}"], SHARED: counted}, "there": {"/a": value}}

    one, other = (facts(report(last, "1", counted)) for last, counted in ((7, ["PUT 1"]), (9, ["PUT 1", "PUT 2"])))
    assert one == other
    assert {key for key, value in facts(report(7, "2", [])).items() if one[key] != value} == {
        "event 0 of /a",
        "/a in the end",
    }
