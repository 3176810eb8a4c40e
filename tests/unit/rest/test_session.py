"""A handler's steps, against a server that only says what the test says."""

from __future__ import annotations

import pytest

from slipstream.rest.session import RestSession
from slipstream.rest.steps import Answer, Ask, HttpProblem, Listen, NatsReply, PublishStep, Steps

INFO = b'INFO {"server_id":"x"}\r\n'


def logged_in() -> RestSession:
    session = RestSession({"user": "u"}, "test", "_INBOX.x")
    assert b'"user":"u"' in session.output()
    session.receive(INFO + b"PONG\r\n")
    assert session.is_known
    return session


def asking() -> Steps:
    reply = yield Ask("a.b", b"hi")
    assert isinstance(reply, NatsReply)
    return Answer(200, reply.payload)


def outcome_of(session: RestSession) -> Answer | HttpProblem:
    assert isinstance(session.outcome, Answer | HttpProblem)
    return session.outcome


def test_a_request_and_its_reply() -> None:
    session = logged_in()
    session.begin(asking())
    assert session.output() == b"SUB _INBOX.x.r.* 1\r\nPUB a.b _INBOX.x.r.1 2\r\nhi\r\n"
    assert session.timeout_ns
    session.receive(b"MSG _INBOX.x.r.1 1 2\r\nok\r\n")
    assert outcome_of(session) == Answer(200, b"ok")
    session.begin(asking())
    assert session.output() == b"PUB a.b _INBOX.x.r.2 2\r\nhi\r\n"
    session.receive(b"MSG _INBOX.x.r.1 1 4\r\nlate\r\n")  # of the request before
    assert session.outcome is None


def test_a_handler_waits_for_the_login() -> None:
    session = RestSession({}, "test", "_INBOX.x")
    session.begin(asking())
    session.output()
    session.receive(INFO)
    assert session.output() == b""
    session.receive(b"PONG\r\n")
    assert b"PUB a.b" in session.output()


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"-ERR 'Permissions Violation for Publish to \"a.b\"'\r\n", 403),
        (b"HMSG _INBOX.x.r.1 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n", 503),
        (b"-ERR 'Maximum Payload Violation'\r\n", 413),
        (b"-ERR 'Something new'\r\n", 502),
    ],
)
def test_what_the_server_refuses(said: bytes, status: int) -> None:
    session = logged_in()
    session.begin(asking())
    session.receive(said)
    problem = outcome_of(session)
    assert isinstance(problem, HttpProblem)
    assert problem.status == status


def test_nobody_answers_in_time() -> None:
    session = logged_in()
    session.begin(asking())
    session.timed_out()
    problem = outcome_of(session)
    assert isinstance(problem, HttpProblem)
    assert problem.status == 504


def test_a_login_that_is_refused() -> None:
    session = RestSession({"user": "u"}, "test", "_INBOX.x")
    session.begin(asking())
    session.receive(INFO + b"-ERR 'Authorization Violation'\r\n")
    session.closed()
    problem = outcome_of(session)
    assert isinstance(problem, HttpProblem)
    assert problem.status == 401
    session.begin(asking())
    assert isinstance(session.outcome, HttpProblem)


def test_a_publish_ends_when_the_server_has_looked_at_it() -> None:
    def publishing() -> Steps:
        yield PublishStep("a", b"x")
        return Answer(204)

    session = logged_in()
    session.begin(publishing())
    assert session.output() == b"PUB a 1\r\nx\r\nPING\r\n"
    assert session.outcome is None
    session.receive(b"PONG\r\n")
    assert outcome_of(session).status == 204


def test_a_handler_may_catch_a_problem_and_go_on() -> None:
    def twice() -> Steps:
        try:
            yield Ask("first")
        except HttpProblem:
            reply = yield Ask("second")
            assert isinstance(reply, NatsReply)
            return Answer(200, reply.payload)
        raise AssertionError

    session = logged_in()
    session.begin(twice())
    session.timed_out()
    assert b"PUB second _INBOX.x.r.2" in session.output()
    session.receive(b"MSG _INBOX.x.r.2 1 2\r\nok\r\n")
    assert outcome_of(session) == Answer(200, b"ok")


def test_a_subject_that_no_line_can_carry() -> None:
    def wrong() -> Steps:
        yield Ask("a b")
        raise AssertionError

    session = logged_in()
    session.begin(wrong())
    problem = outcome_of(session)
    assert isinstance(problem, HttpProblem)
    assert problem.status == 400


def test_pings_are_answered() -> None:
    session = logged_in()
    session.receive(b"PING\r\nPING\r\n")
    assert session.output() == b"PONG\r\nPONG\r\n"


def test_listening_names_a_subject_of_its_own() -> None:
    def listening() -> Steps:
        subject = yield Listen()
        yield Ask("make", str(subject).encode())
        raise AssertionError

    session = logged_in()
    session.begin(listening())
    assert session.output() == (b"SUB _INBOX.x.t 1\r\nSUB _INBOX.x.r.* 2\r\nPUB make _INBOX.x.r.1 10\r\n_INBOX.x.t\r\n")
