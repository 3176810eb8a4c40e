"""Which test stands for which published advisory about nats-server, and for which fix without one.

An entry is a list of tests, or the reason why there is none yet. The tests must exist, and at least one of them has to
name the advisory in its docstring, so that whoever changes the test knows what it is for.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
NO_MQTT = "MQTT is not spoken; what is off cannot be reached: test_abuse_listeners.py"

# All names of an advisory → tests, or the reason why there are none.
ADVISORIES: dict[tuple[str, ...], list[str] | str] = {
    ("CVE-2019-13126",): [
        "security/test_parser_bounds.py::test_sizes_that_do_not_fit",
        "security/test_parser_bounds.py::test_sizes_that_are_no_sizes",
        "security/test_parser_bounds.py::test_leading_zeros_are_digits",
    ],
    ("CVE-2020-26521",): [
        "conformance/test_odd_claims.py::test_the_same_tokens_are_taken",
        "unit/auth/test_jwt_token.py::test_each_field_missing_null_wrong_or_huge",
    ],
    ("CVE-2020-26892",): [
        "security/test_before_login.py::test_a_user_that_goes_while_its_password_is_checked_does_not_come_in",
        "security/test_jetstream_advisories.py::test_rights_that_are_taken_back_end_the_connection",
        "conformance/transcripts/test_wire_operator.py::test_operator_mode",
        "conformance/transcripts/test_wire_operator_claims.py::test_effects_on_clients",
        "conformance/transcripts/test_wire_operator_claims.py::test_an_account_ends",
        "conformance/test_auth_callout.py::test_a_login_that_ends_cuts_the_connection",
        "unit/server/test_leafnode_operators.py::test_tokens_let_leafs_in_and_their_end_ends_the_links",
        "security/test_openid.py::test_the_end_of_the_token_is_the_end_of_the_connection",
    ],
    ("CVE-2020-28466", "CVE-2022-42709"): [
        "property/test_import_rings.py::test_requests_come_to_an_end_or_the_configuration_is_refused",
        "property/test_import_rings.py::test_tokens_of_accounts_close_no_ring",
        "unit/accounts/test_account_graph.py::test_two_accounts_cannot_feed_each_other",
    ],
    ("CVE-2021-3127",): [
        "unit/accounts/test_account_graph.py::test_a_token_can_be_bound_to_the_importing_account",
        "unit/auth/test_jwt_checks.py::test_activation_is_bound_to_account_and_subject",
        "conformance/transcripts/test_wire_operator_keys.py::test_activations",
    ],
    ("CVE-2021-32026",): [
        "security/test_tls_everywhere.py::test_flags_and_files_offer_the_same",
        "security/test_tls_everywhere.py::test_weak_suites_and_old_versions_are_refused_by_the_running_server",
    ],
    ("CVE-2022-24450",): ["unit/auth/test_authenticator.py::test_a_client_cannot_choose_its_account"],
    ("CVE-2022-26652",): [
        "security/test_restore_entries.py::test_no_name_in_an_archive_is_a_path",
        "security/test_restore_entries.py::test_names_of_consumers_are_names",
    ],
    ("CVE-2022-28357",): [
        "unit/server/test_resolvers.py::test_only_keys_of_accounts_become_files",
        "unit/server/test_resolvers.py::test_only_keys_of_accounts_name_files_to_remove",
    ],
    ("CVE-2022-29946",): [
        "security/test_delivery_paths.py::test_denied_subjects_are_withheld_on_every_way",
        "security/test_delivery_paths.py::test_an_allowed_copy_beside_a_denied_one",
        "property/test_permissions_properties.py::test_delivered_is_allowed_minus_denied",
        "security/test_denied_over_links.py::test_denied_subjects_do_not_come_over_links",
    ],
    ("CVE-2022-42708",): [
        "security/test_jetstream_advisories.py::test_any_number_in_any_field_is_answered",
        "security/test_jetstream_advisories.py::test_any_number_in_any_request_is_answered",
    ],
    ("CVE-2023-47090",): [
        "unit/auth/test_authenticator.py::test_nobody_comes_in_without_credentials_where_there_are_some",
    ],
    ("CVE-2023-46129",): [
        "unit/auth/test_nkeys.py::test_identities_are_fresh_keys_of_their_kind",
        "unit/auth/test_callout_keys.py::test_what_is_sealed_is_for_one_key_and_from_one",
        "conformance/test_auth_callout.py::test_sealed_requests_and_answers",
    ],
    ("CVE-2025-30215",): [
        "security/test_authorised_services.py::test_services_of_the_system_account_are_nobody_s_elsewhere",
        "security/test_authorised_services.py::test_an_account_sees_itself_only",
        "security/test_jetstream_advisories.py::test_the_api_of_an_account_is_its_own",
        "security/test_authorised_services.py::test_events_of_the_system_account_stay_there",
    ],
    ("2026-01", "CVE-2025-68121"): [
        "security/test_tls_everywhere.py::test_certificates_of_one_listener_are_strangers_at_another",
        "unit/auth/test_authenticator.py::test_certificates_of_one_listener_do_not_open_another",
        "unit/server/test_tls_layer.py::test_listeners_trust_their_own_authority_only",
    ],
    ("2026-02", "CVE-2026-27571"): [
        "security/test_abuse_listeners.py::test_garbage_on_the_websocket_port",
        "conformance/test_websocket_wire.py::test_bomb_is_not_swallowed",
        "security/test_jetstream_advisories.py::test_a_small_backup_does_not_become_large_in_memory",
    ],
    ("2026-03", "CVE-2026-27889"): ["security/test_abuse_listeners.py::test_garbage_on_the_websocket_port"],
    ("2026-04", "CVE-2026-29785"): [
        "security/test_before_login.py::test_nothing_but_connect_is_heard_from_a_stranger",
        "security/test_anonymous.py::test_the_leaf_node_port_lets_nobody_in_without_a_password",
    ],
    ("2026-05", "CVE-2026-33216"): [
        "security/test_secrets.py::test_no_answer_and_no_log_line_holds_a_secret",
        "security/test_log_lines.py::test_traces_of_connect_hold_no_secret",
        "security/test_log_lines.py::test_a_connect_that_is_refused_is_not_repeated",
    ],
    ("2026-06", "CVE-2026-33215"): NO_MQTT,
    ("2026-07", "CVE-2026-33217", "2026-21"): [
        "unit/auth/test_permissions.py::test_no_internal_namespace_is_exempt",
    ],
    ("2026-08", "CVE-2026-33246"): [
        "security/test_request_info.py::test_a_client_cannot_say_who_it_is",
        "security/test_request_info.py::test_nor_by_an_answer_that_becomes_a_request",
        "security/test_restore_entries.py::test_headers_do_not_speak_for_the_server",
    ],
    ("2026-09", "CVE-2026-33223"): [
        "security/test_request_info.py::test_a_client_cannot_say_who_it_is",
        "security/test_request_info.py::test_nor_through_a_chain_of_imports",
    ],
    ("2026-10", "CVE-2026-33218"): [
        "security/test_before_login.py::test_nothing_but_connect_is_heard_from_a_stranger",
        "security/test_anonymous.py::test_the_leaf_node_port_lets_nobody_in_without_a_password",
    ],
    ("2026-11", "CVE-2026-33219"): [
        "security/test_half_open.py::test_half_open_connections_cost_little_and_go",
        "security/test_half_open.py::test_ten_thousand_half_open_connections",
        "security/test_before_login.py::test_who_waits_for_its_password_may_not_flood",
        "security/test_before_login_sockets.py::test_a_flood_behind_connect_is_cut_off",
    ],
    ("2026-12", "CVE-2026-33222"): [
        "security/test_jetstream_advisories.py::test_the_name_in_the_subject_is_the_name_in_the_body",
        "security/test_restore_entries.py::test_the_name_inside_is_the_name_asked_for",
    ],
    ("2026-13", "CVE-2026-33248"): [
        "unit/auth/test_tls_map.py::test_unequal_names",
        "conformance/test_certificate_users.py::test_random_certificates",
    ],
    ("2026-14", "CVE-2026-33247"): ["security/test_secrets.py::test_secrets_of_the_command_line_are_not_shown"],
    ("2026-15", "CVE-2026-33249", "2026-20"): [
        "security/test_injection.py::test_a_trace_needs_the_right_to_publish_where_it_goes",
        "security/test_injection.py::test_the_server_s_own_subjects_are_no_destination_of_a_trace",
        "security/test_named_subjects.py::test_the_server_does_for_nobody_what_he_may_not",
        "security/test_named_subjects.py::test_a_schedule_needs_the_right_to_its_target",
        "security/test_injection.py::test_a_trace_goes_to_a_subject_or_nowhere",
        "conformance/test_traces_across.py::test_a_leaf_has_traces_sent_only_where_it_may_publish",
    ],
    ("2026-16",): [
        "security/test_anonymous.py::test_the_first_operation_is_done_as_the_guest",
        "security/test_anonymous.py::test_operations_of_servers_are_nothing_to_guests",
        "security/test_anonymous.py::test_the_leaf_node_port_lets_nobody_in_without_a_password",
    ],
    ("2026-17",): [
        "property/test_permissions_properties.py::test_delivered_is_allowed_minus_denied",
        "property/test_core_machine.py::CoreMachine",
    ],
    ("2026-18",): [
        "property/test_permissions_properties.py::test_delivered_is_allowed_minus_denied",
        "property/test_core_machine.py::CoreMachine",
    ],
    ("2026-19",): [
        "security/test_before_login.py::test_nothing_but_connect_is_heard_from_a_stranger",
        "security/test_link_peers.py::test_a_line_without_an_end_and_an_account_that_is_not_there",
    ],
    ("2026-22",): [
        "security/test_injection.py::test_bytes_that_break_lines_end_the_connection",
        "security/test_restore_entries.py::test_subjects_that_nobody_could_publish",
        "security/test_jetstream_advisories.py::test_names_are_names_wherever_they_come_from",
        "unit/jetstream/test_source_feed.py::test_an_impostor_does_not_choose_what_is_read",
        "security/test_injection.py::test_a_trace_goes_to_a_subject_or_nowhere",
        "security/test_injection.py::test_errors_repeat_names_escaped",
        "security/test_log_lines.py::test_a_log_line_is_one_line_of_text",
        "unit/subjects/test_transform.py::test_control_characters_cannot_enter_through_a_destination",
        "unit/kernels/test_subject_rules.py::test_control_characters_are_not_part_of_a_subject",
    ],
    ("2026-23",): [
        "unit/auth/test_nkeys.py::test_a_key_of_another_length_is_refused",
        "conformance/test_odd_claims.py::test_the_same_tokens_are_taken",
    ],
    ("2026-24",): [
        "unit/auth/test_authenticator.py::test_connection_types_hold_on_every_way_in",
        "security/test_anonymous.py::test_connection_types_hold_without_connect",
        "conformance/transcripts/test_wire_operator_scopes.py::test_rights",
        "conformance/transcripts/test_wire_operator_keys.py::test_jwt_cookie",
    ],
    ("2026-25",): [
        "security/test_before_login.py::test_half_a_connect_is_bounded",
        "security/test_half_open.py::test_half_open_connections_cost_little_and_go",
    ],
    ("2026-26",): [
        "security/test_delivery_paths.py::test_denied_subjects_are_withheld_on_every_way",
        "security/test_delivery_paths.py::test_imported_streams_are_judged_by_the_name_they_have_here",
        "security/test_delivery_paths.py::test_requests_and_answers_across_accounts",
        "security/test_delivery_paths.py::test_permissions_of_a_reload_hold_at_once",
    ],
    ("2026-27",): ["security/test_abuse_listeners.py::test_features_that_are_off_cannot_be_reached"],
    ("2026-28",): [
        "security/test_abuse_listeners.py::test_pages_at_their_extremes",
        "security/test_abuse_clients.py::test_system_request_bombs",
    ],
    # Fixes that carry no advisory, by their number in the project's list.
    ("S1",): ["unit/auth/test_authenticator.py::test_a_user_without_password_cannot_come_by_name"],
    ("S2",): [
        "security/test_before_login.py::test_a_first_operation_waits_for_the_password_too",
        "security/test_before_login.py::test_a_first_operation_of_somebody_with_a_wrong_cookie",
        "conformance/test_auth_callout.py::test_nothing_passes_before_connect",
    ],
    ("S3",): ["unit/auth/test_permissions.py::test_an_entry_that_cannot_be_understood_is_refused"],
    ("S4",): ["security/test_jetstream_advisories.py::test_a_backup_goes_to_one_subject"],
    ("S5",): ["security/test_denied_over_links.py::test_denied_subjects_do_not_come_over_links"],
    ("S6",): [
        "security/test_anonymous.py::test_a_second_connect_is_another_login",
        "security/test_anonymous.py::test_a_second_connect_with_wrong_credentials_is_the_end",
    ],
    ("S7",): ["security/test_anonymous.py::test_control_lines_are_limited_on_every_listener"],
    ("S8",): [
        "security/test_jetstream_advisories.py::test_names_are_names_wherever_they_come_from",
        "security/test_restore_entries.py::test_names_of_consumers_are_names",
    ],
    ("S9",): [
        "security/test_jetstream_advisories.py::test_nobody_names_an_ack_as_reply",
        "security/test_jetstream_advisories.py::test_acks_that_end_oddly_acknowledge_nothing_or_the_right_thing",
    ],
    ("S10",): ["sim/test_replica_storm.py::test_seeds_hold", "sim/test_raft_sim.py::test_a_broken_node_is_caught"],
}
ENTRIES = [pytest.param(names, tests, id=names[0]) for names, tests in ADVISORIES.items()]


@cache
def _docstrings(path: Path) -> dict[str, str]:
    """Functions and classes of a test file, methods among them, and what they say about themselves."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = ast.get_docstring(node) or ""
    return found


@pytest.mark.parametrize(("names", "tests"), ENTRIES)
def test_every_advisory_has_its_test(names: tuple[str, ...], tests: list[str] | str) -> None:
    if isinstance(tests, str):
        assert len(tests) > 20, "a reason"
        return
    assert tests
    said = ""
    for test in tests:
        file, name = test.split("::")
        assert (TESTS / file).exists(), file
        docstrings = _docstrings(TESTS / file)
        assert name in docstrings, f"{file} has no {name}"
        said += docstrings[name] + "\n"
    assert any(re.search(rf"\b{re.escape(name)}\b", said) for name in names), f"no docstring names {names}"


def test_reasons_name_files_that_exist() -> None:
    for reason in {tests for tests in ADVISORIES.values() if isinstance(tests, str)}:
        for file in re.findall(r"\b(test_\w+\.py)", reason):
            assert list(TESTS.rglob(file)), file


def test_all_advisories_of_2026_are_listed() -> None:
    listed = {name for names in ADVISORIES for name in names}
    assert {f"2026-{number:02}" for number in range(1, 29)} <= listed
    assert {f"S{number}" for number in range(1, 11)} <= listed
