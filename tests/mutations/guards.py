"""The guards on which "nothing is lost, nothing runs twice" rests, how each is taken out, and the test that notices."""

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Guard:
    """One guard.

    Args:
        name: What it is called.
        file: Where it stands.
        text: Its source there, which occurs once.
        without: What takes its place when it is removed.
        test: The test that notices: ``file::function``, with a case in brackets where one of them is enough.
        fails: Pattern of the message with which that test then fails: its own assertion, an error not raised, or the
            error of what stands behind the guard and stops only this case.
    """

    name: str
    file: str
    text: str
    without: str
    test: str
    fails: str

    def problems(self, root: Path) -> list[str]:
        """Why it cannot be removed from the sources under ``root`` any more; nothing while it can."""
        found = (root / self.file).read_text().count(self.text) if (root / self.file).is_file() else 0
        path, _, function = self.test.partition("::")
        what = [] if found == 1 else [f"{self.name}: its source occurs {found} times in {self.file}, not once"]
        known = _functions(root / path)
        return what + ([] if function.partition("[")[0] in known else [f"{self.name}: there is no test {self.test}"])


def _functions(file: Path) -> set[str]:
    if not file.is_file():
        return set()
    return {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}


_LEDGER = "tests/contracts/test_ledger.py"
_LEASES = "tests/contracts/test_ledger_leases.py"
_RESULTS = "tests/contracts/test_ledger_results.py"
_DESK = "tests/flows/desk/test_desk_security.py"
_SWEEP = f"{_DESK}::test_none_of_thousands_of_wrong_requests_is_accepted"

GUARDS = (
    Guard(
        "compare-and-swap",
        "storage/ledgers/operations/compare_and_swap.py",
        "    if trial.expect != (state, version):\n",
        "    if False:\n",
        f"{_LEDGER}::test_of_two_that_move_from_the_same_snapshot_the_second_is_told_where_the_trial_stands[sqlite]",
        r"DID NOT RAISE .*StaleTrial",
    ),
    Guard(
        "compare-and-swap, in the statement itself",
        "storage/ledgers/operations/compare_and_swap.py",
        'schema.trials.c.state == bindparam("from_state"),\n'
        '        schema.trials.c.version == bindparam("from_version"),\n',
        'bindparam("from_state").is_not(None),\n        bindparam("from_version").is_not(None),\n',
        "tests/storage/ledgers/test_compare_and_swap.py::test_a_row_that_was_changed_after_it_was_read_is_not_written",
        r"DID NOT RAISE .*StaleTrial",
    ),
    Guard(
        "one table of moves",
        "storage/ledgers/operations/compare_and_swap.py",
        "    if to not in TRANSITIONS[trial.state]:\n",
        "    if False:\n",
        f"{_LEDGER}::test_a_move_is_made_exactly_when_the_table_has_it[sqlite-COMPLETED]",
        r"DID NOT RAISE .*ForbiddenMove",
    ),
    Guard(
        "fencing of a late holder",
        "storage/ledgers/sql.py",
        "leases.hold(connection, self._lease)",
        "pass",
        f"{_LEASES}::test_every_write_of_a_holder_that_was_replaced_is_refused_and_changes_nothing[sqlite]",
        r"SpecChanged: The campaign",
    ),
    Guard(
        "fencing of every step",
        "flows/wiring/context.py",
        "ledger if lease is None else ledger.fenced(Lease.model_validate(lease))",
        "ledger",
        "tests/flows/steps/test_one_pass.py::test_a_pass_whose_lease_was_broken_writes_nothing",
        r"DID NOT RAISE .*LeaseLost",
    ),
    Guard(
        "one pass at a time",
        "storage/ledgers/operations/leases.py",
        "    if holder is not None and not break_lease and lives(holder):\n",
        "    if False:\n",
        f"{_LEASES}::test_a_live_holder_is_named_and_keeps_the_lease[sqlite]",
        r"DID NOT RAISE .*LeaseHeld",
    ),
    Guard(
        "a tick that was served makes no pass",
        "storage/ledgers/operations/leases.py",
        "    if holder is None and due is not None and began is not None and due < began <= time.time():\n",
        "    if False:\n",
        f"{_LEASES}::test_what_was_due_before_a_pass_that_is_over_began_is_served_and_nothing_is_written[sqlite]",
        r"DID NOT RAISE .*PassServed",
    ),
    Guard(
        "one exporter at a time",
        "storage/trackers/campaigns.py",
        "ledger.acquire_exporter(), 0",
        "ledger.acquire_exporter(break_lease=True), 0",
        "tests/storage/trackers/test_tracking.py::test_a_second_exporter_is_refused_while_the_first_one_works",
        r"DID NOT RAISE .*LeaseHeld",
    ),
    Guard(
        "an outbox item is exported once",
        "storage/ledgers/sql.py",
        '.where(schema.outbox.c.id == bindparam("item"), schema.outbox.c.exported.is_(None))',
        '.where(schema.outbox.c.id == bindparam("item"))',
        f"{_LEDGER}::test_an_exported_item_leaves_the_outbox_and_the_others_stay[sqlite]",
        r"run-2.*run-1",
    ),
    Guard(
        "an approval names what will run",
        "storage/ledgers/operations/approvals.py",
        "    if grant.digest != (runs := what_runs(connection, trial)):\n",
        "    if False:\n",
        f"{_LEDGER}::test_an_approval_is_for_exactly_what_will_run[sqlite]",
        r"DID NOT RAISE .*ForbiddenMove",
    ),
    Guard(
        "nothing is sent that was not approved as it is",
        "storage/ledgers/operations/approvals.py",
        "    if approval.digest != (runs := what_runs(connection, trial)) or approval.revision != trial.revision:\n",
        "    if False:\n",
        "tests/flows/rules/test_failures.py::"
        "test_a_trial_that_is_not_what_was_approved_holds_up_neither_the_pass_nor_other_trials",
        r"not enough values to unpack",
    ),
    Guard(
        "an approval is for one level of the simulator",
        "storage/ledgers/operations/compare_and_swap.py",
        "digest_of(spec), trial.level)",
        "digest_of(spec), None if trial.level is None else 0)",
        "tests/flows/wiring/levels/test_levels_in_campaigns.py::"
        "test_an_approval_binds_the_level_and_a_change_outside_the_ledger_is_noticed",
        r"assert",
    ),
    Guard(
        "coarser runs are no results",
        "storage/records.py",
        "    return state is TrialState.COMPLETED and level is None and bool(outputs)\n",
        "    return state is TrialState.COMPLETED and bool(outputs)\n",
        "tests/contracts/test_ledger_budget.py::"
        "test_a_run_of_a_coarser_level_costs_and_takes_none_of_the_trials[sqlite]",
        r"assert",
    ),
    Guard(
        "nothing is sent by code that was not approved",
        "storage/ledgers/operations/approvals.py",
        "    if to is TrialState.STAGED and approval.code != (code and code.digest):\n",
        "    if False:\n",
        "tests/contracts/test_ledger_decisions.py::"
        "test_a_trial_is_staged_for_the_code_that_was_approved_and_for_no_other[sqlite]",
        r"DID NOT RAISE .*ForbiddenMove",
    ),
    Guard(
        "an approval of code that has changed is void",
        "flows/steps/approve.py",
        "None if approval.code == code.digest else uncovered(",
        "None if approval.code else uncovered(",
        "tests/flows/rules/test_approved_code.py::"
        "test_a_simulator_that_changed_after_a_persons_approval_does_not_run_under_it",
        r"'simulati.*'person'",
    ),
    Guard(
        "what is imported is what was approved",
        "flows/spec/source_files.py",
        "    if told is None:",
        "    if told is not None:",
        "tests/flows/rules/test_approved_code.py::"
        "test_a_file_that_changes_between_the_dispatch_and_the_import_is_refused_where_it_would_run",
        r"assert",
    ),
    Guard(
        "approvals expire",
        "storage/ledgers/operations/approvals.py",
        "    if approval.expires is not None and approval.expires <= (now := time.time()):\n",
        "    if False:\n",
        "tests/contracts/test_ledger_decisions.py::"
        "test_nothing_is_staged_or_retried_under_an_approval_that_has_expired[sqlite]",
        r"DID NOT RAISE .*ForbiddenMove",
    ),
    Guard(
        "an approval is for so many attempts",
        "storage/ledgers/operations/approvals.py",
        "    if (used := _used(connection, approval)) >= approval.attempts:\n",
        "    if (used := _used(connection, approval)) < 0:\n",
        f"{_LEDGER}::test_a_retry_runs_under_the_same_approval_up_to_its_attempts[sqlite]",
        r"DID NOT RAISE .*ForbiddenMove",
    ),
    Guard(
        "budget is reserved before a trial is sent",
        "storage/ledgers/operations/moves.py",
        "    if to is TrialState.STAGED:\n        budget.reserve(connection, before)\n",
        "",
        "tests/contracts/test_ledger_budget.py::"
        "test_what_is_out_counts_against_the_cost_and_what_came_cheaper_is_free_again[sqlite]",
        r"DID NOT RAISE .*BudgetSpent",
    ),
    Guard(
        "an iteration is proposed once",
        "storage/ledgers/operations/designs.py",
        "    if existing := many(connection, Trial, _OF_ITERATION, campaign=campaign, iteration=iteration):\n"
        "        return existing\n",
        "",
        f"{_LEDGER}::test_trials_are_numbered_on_and_proposing_an_iteration_again_writes_nothing[sqlite]",
        r"UNIQUE constraint",
    ),
    Guard(
        "what is sent is staged first",
        "flows/steps/dispatch.py",
        "        staged = _claim(site, trial, now)\n",
        '        dispatcher.submit(Job(trial.id, f"{trial.id}-{trial.attempt + 1}", request_of(site, trial, now)))\n'
        "        staged = _claim(site, trial, now)\n",
        "tests/flows/steps/test_one_pass.py::test_a_trial_is_staged_in_the_ledger_before_its_dispatcher_is_asked_to_run_it",
        r"b-0001-1 APPROVED",
    ),
    Guard(
        "what may have been sent is looked for first",
        "flows/steps/dispatch.py",
        "        handle = dispatcher.find(key)\n",
        "        handle = None\n",
        "tests/flows/rules/test_failures.py::"
        "test_a_staged_trial_of_which_nobody_can_tell_whether_it_was_sent_is_held_and_sent_once_it_was_not",
        r"assert .*'person'",
    ),
    Guard(
        "what may have run is not repeated",
        "flows/steps/harvest.py",
        "    if site.campaign.idempotent:\n",
        "    if True:\n",
        "tests/flows/rules/test_failures.py::"
        "test_a_killed_simulation_that_may_not_be_repeated_is_held_until_a_person_retries_it",
        r"Differing attributes:\s+.'wait",
    ),
    Guard(
        "a key runs once, whoever submits it",
        "flows/jobs/job_folder.py",
        '{**process, "at": time.time()}, once=True, flush=flush)',
        '{**process, "at": time.time()}, flush=flush)',
        "tests/contracts/test_dispatchers.py::test_a_key_submitted_twice_runs_once[local]",
        r"assert",
    ),
    Guard(
        "a part is a new version",
        "storage/ledgers/operations/results.py",
        "        after = swap(connection, before, before.state, updated=before.updated)\n",
        "        after = before\n",
        f"{_RESULTS}::test_a_part_is_recorded_only_by_who_has_seen_the_parts_before_it[sqlite-RUNNING]",
        r"At index 1 diff",
    ),
    Guard(
        "a result of an earlier attempt does not count",
        "storage/ledgers/operations/results.py",
        "    counts = present and TrialState.COMPLETED in TRANSITIONS[trial.state]\n",
        "    counts = TrialState.COMPLETED in TRANSITIONS[trial.state]\n",
        f"{_RESULTS}::test_a_late_result_of_an_earlier_attempt_is_kept_and_moves_nothing[sqlite]",
        r"accepted.*uperseded",
    ),
    Guard(
        "a result that comes twice is stored once",
        "storage/ledgers/operations/results.py",
        "    if repeated is not None:\n        return before, repeated.model_copy(update={\"verdict\": verdict})\n",
        "",
        f"{_RESULTS}::test_a_result_that_comes_twice_is_stored_once[sqlite]",
        r"assert",
    ),
    Guard(
        "what is read is what was written",
        "storage/field_store/staging.py",
        "    if hashlib.sha256(content).hexdigest() != expected.sha256:\n",
        "    if False:\n",
        "tests/storage/field_store/test_field_stores.py::"
        "test_damage_is_found_by_verify_and_never_read[directory-flipped bit]",
        r"Regex pattern did not match",
    ),
    Guard(
        "the desk answers to its own names alone",
        "flows/desk/guard.py",
        "        if len(hosts) != 1 or hosts[0].lower() not in self.place.hosts:\n",
        "        if len(hosts) != 1:\n",
        f"{_DESK}::test_a_name_of_others_that_leads_here_is_not_answered[evil.example]",
        r"assert \(?200 == 421",
    ),
    Guard(
        "the desk takes changes from its own pages alone, by Origin",
        "flows/desk/guard.py",
        "if not own or origins[0] not in self.place.origins or site",
        "if site",
        _SWEEP,
        r"'origin'",
    ),
    Guard(
        "the desk takes changes from its own pages alone, by Sec-Fetch-Site",
        "flows/desk/guard.py",
        " or site != [\"same-origin\"]",
        "",
        _SWEEP,
        r"'site'",
    ),
    Guard(
        "a form of the desk carries its session's secret",
        "flows/desk/entering.py",
        "        require_csrf(form, visit.session)\n",
        "",
        _SWEEP,
        r"csrf'",
    ),
    Guard(
        "who may look at the desk may not decide there",
        "flows/desk/pages/queue.py",
        "    person, ledger = visit.person.require(\"decide\"), board.ledger\n    choices",
        "    person, ledger = visit.person, board.ledger\n    choices",
        _SWEEP,
        r"'viewer'",
    ),
    Guard(
        "a rejection at the desk is of what its card showed",
        "flows/desk/pages/queue.py",
        "decisions.reject(ledger, person, choices, reason, _WAITING)",
        "decisions.reject(ledger, person, choices, reason)",
        "tests/flows/desk/test_desk_decisions.py::"
        "test_of_two_people_on_one_card_one_wins_and_the_other_is_told_who_did",
        r"200 == 409",
    ),
    Guard(
        "an old page settles no trial anew",
        "flows/people/interventions.py",
        "    if version is not None and version != trial.version:\n        raise overtaken(ledger, trial)\n",
        "",
        "tests/flows/desk/test_desk_decisions.py::"
        "test_an_old_page_of_a_held_trial_changes_nothing_once_somebody_has_settled_it[retry]",
        r"200 == 409",
    ),
    Guard(
        "a token taken out of the file ends its session at the desk",
        "flows/desk/entering.py",
        "        sessions.end(secret)\n        raise SignInFirst(f\"You were",
        "        raise SignInFirst(f\"You were",
        f"{_DESK}::test_a_token_taken_out_of_the_file_ends_its_sessions_at_once",
        r"200 == 303",
    ),
    Guard(
        "a printed token of the desk is good for one sign-in",
        "flows/desk/entering.py",
        "            self._renew()\n        return None\n",
        "        return None\n",
        f"{_DESK}::test_without_a_file_of_people_a_printed_token_is_good_for_one_sign_in",
        r"303 == 403",
    ),
    Guard(
        "a correction of a part computes again what is computed from it",
        "flows/results/correct.py",
        "        outputs = completed(site.campaign, outputs, ran or sent, trial.id)\n",
        "",
        "tests/flows/wiring/test_computed_outputs.py::"
        "test_a_correction_of_a_part_changes_the_computed_value_and_what_is_best",
        r"1\.25 == 20\.0",
    ),
    Guard(
        "a part that is withdrawn counts no more",
        "storage/ledger/standing.py",
        "    return tuple(parts[withdrawn:])\n",
        "    return tuple(part for part in parts if part.outputs)\n",
        "tests/flows/results/test_parts.py::test_parts_that_are_retracted_are_kept_and_asked_for_again",
        r"assert",
    ),
    Guard(
        "a file that is read again brings back nothing that was withdrawn",
        "flows/results/record.py",
        "        return _rest(site, checked, gone, by, source)\n",
        "        pass\n",
        "tests/flows/results/test_parts.py::"
        "test_a_file_that_is_read_again_does_not_bring_back_what_was_withdrawn",
        r"oven-0001: kept as a part",
    ),
    Guard(
        "who retracts at the desk retracts what they saw",
        "flows/results/correct.py",
        "    if seen is not None and results and (last := results[-1]).id != seen:\n",
        "    if (last := results[-1]) is None:\n",
        "tests/flows/desk/test_desk_laboratory.py::"
        "test_who_withdraws_a_part_does_not_retract_what_somebody_recorded_meanwhile",
        r"303 == 422",
    ),
)  # fmt: skip
