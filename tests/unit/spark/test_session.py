"""Settings, and what is said when Java or pyspark is missing or too old."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream.spark.runtime import jvm
from slipstream.spark.runtime.errors import SetupError
from slipstream.spark.runtime.session import check_spark, session, settings


def fake_java(directory: Path, version: str, *, status: int = 0) -> dict[str, str]:
    program = directory / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {status}\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(directory)}


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25.0.2", 25)])
def test_java_is_found(tmp_path: Path, version: str, major: int) -> None:
    assert jvm.find_java(fake_java(tmp_path, version)).major == major


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2"])
def test_java_is_too_old(tmp_path: Path, version: str) -> None:
    with pytest.raises(SetupError, match=r"needs 17 or later.*apt-get install openjdk-17"):
        jvm.find_java(fake_java(tmp_path, version))


def test_java_is_missing_or_broken(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no `java` here"):
        jvm.find_java({"PATH": str(tmp_path)})
    with pytest.raises(SetupError, match="cannot be run"):
        jvm.find_java({"JAVA_HOME": str(tmp_path / "nowhere")})
    with pytest.raises(SetupError, match="nothing useful"):
        jvm.find_java(fake_java(tmp_path, "17", status=1))


def test_a_java_that_ends_is_no_hang(tmp_path: Path) -> None:
    java = jvm.find_java(fake_java(tmp_path, "17.0.1"))
    with pytest.raises(SetupError, match="ended with status 0"):
        jvm.launch(java)


def test_ctrl_c_at_the_end_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE) as process:
        wait = process.wait

        def interrupted(timeout: float | None = None) -> int:
            if timeout is None:
                return wait()
            raise KeyboardInterrupt

        monkeypatch.setattr(process, "wait", interrupted)
        jvm.end(process)
        assert process.returncode == -signal.SIGKILL


def test_archives_are_for_one_java_and_one_spark(tmp_path: Path) -> None:
    one = jvm.archive_path(jvm.Java("java", 17, 'openjdk version "17.0.1" OpenJDK 64-Bit Server VM'), "4.3.0", tmp_path)
    other = jvm.archive_path(
        jvm.Java("java", 17, 'openjdk version "17.0.2" OpenJDK 64-Bit Server VM'), "4.3.0", tmp_path
    )
    assert one.parent == tmp_path and one != other and "4.3.0" in one.name


@pytest.mark.parametrize("version", ["4.1.1", "3.5.0", "5.0.0"])
def test_another_spark(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("pyspark.__version__", version)
    with pytest.raises(SetupError, match=r"4.2 or later.*slipstream-server\[spark\]"):
        check_spark()


def test_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SetupError, match=r"not installed.*slipstream-server\[spark\]"):
        check_spark()


def test_an_unknown_profile() -> None:
    with pytest.raises(SetupError, match="test, batch, stream"):
        session("turbo")  # type: ignore[arg-type]


def test_settings_follow_the_master() -> None:
    local, cluster = settings("stream", "local[2]"), settings("stream", "spark://host:7077")
    assert local["spark.driver.host"] == "127.0.0.1" and "checkpointFileManagerClass" in "".join(local)
    assert "spark.driver.host" not in cluster and "checkpointFileManagerClass" not in "".join(cluster)
    assert settings("test", "local[2]")["spark.sql.shuffle.partitions"] == "2"
    assert all(
        settings(profile, "local")["spark.sql.python.filterPushdown.enabled"] == "true" for profile in ("test", "batch")
    )


def test_the_package_can_be_imported_without_spark() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None; import slipstream.spark as s; s.session()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "SetupError: pyspark is not installed" in done.stderr
