"""A campaign in a notebook: ask, tell, decide, run, and its trials, fields and predictions.

It holds no state of the campaign: every call reads the ledger, so a command, a scheduled pass and another notebook see
the same trials at once. Passes that it makes are those of ``fieldcraft run``; ``run`` shows them in Prefect.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from fieldcraft.flows.analysis.best import best_of
from fieldcraft.flows.analysis.front import on_front
from fieldcraft.flows.errors import FieldcraftError, InputError
from fieldcraft.flows.files.tables import Measurement, number
from fieldcraft.flows.identity import acting
from fieldcraft.flows.machinery.progress import listening
from fieldcraft.flows.notebook.arguments import as_run, count
from fieldcraft.flows.notebook.card import card, parts
from fieldcraft.flows.notebook.decided_campaign import DecidedCampaign
from fieldcraft.flows.notebook.passes import pass_lease, shown
from fieldcraft.flows.notebook.tables import asked_table, designs_of, predictions_table, trials_table
from fieldcraft.flows.people import interventions
from fieldcraft.flows.predictions.model import latest_model, predicted
from fieldcraft.flows.results.correct import correct
from fieldcraft.flows.results.parts import contradicted
from fieldcraft.flows.results.record import check, check_correction, known_trial, record, site_for
from fieldcraft.flows.run import awaited, pause
from fieldcraft.flows.steps.one_pass import Caller, Passed, Ref, directly, make_pass
from fieldcraft.flows.views.display import Display
from fieldcraft.flows.views.export import BackgroundExport
from fieldcraft.flows.wiring.context import Site, site_of
from fieldcraft.flows.wiring.physics.predicted_fields import predicted_fields
from fieldcraft.physics.problem import Infeasible
from fieldcraft.storage.fields import fields_at
from fieldcraft.storage.records import Lease, Trial, TrialState

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Results = Mapping[str, float] | float
Designs: TypeAlias = "pd.DataFrame | Mapping[str, Any] | Sequence[Mapping[str, Any]]"
_WAITING = frozenset({TrialState.PROPOSED, TrialState.APPROVED, TrialState.STAGED, TrialState.RUNNING})


class OpenCampaign(DecidedCampaign):
    """A campaign of the ledger.

    Attributes:
        name: Its name.
    """

    def __repr__(self) -> str:
        return f"fieldcraft.campaign({self.name!r}, home={str(self._settings.home)!r})"

    def _repr_html_(self) -> str:
        return card(self._settings, self._ledger, self._record)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        for part in parts(self._settings, self._ledger, self._record):
            display(part, raw=True)  # type: ignore[no-untyped-call]

    @property
    def finished(self) -> str | None:
        """Reason why it has ended; None while it goes on."""
        return self._record.finished

    def ask(self, n: int = 1) -> "pd.DataFrame":
        """Designs to try next, written down before they are returned.

        Trials that nobody has told a result of come first, so a notebook whose kernel was killed is given the same
        ones again. Trials that another live notebook asked for are left to it; those of another machine until a result
        is told or they are abandoned. Before the start has a result, at most the start's designs are given.

        Args:
            n: Number of designs.

        Returns:
            At most n rows by trial: the design, what the model predicted for it (mean and sd; ``predict`` asks for
            one that was edited), state and digest. A trial in the state PROPOSED waits for ``decide``. No row if the
            campaign has ended.

        Raises:
            InputError: n is no whole number of at least 1, or no person does its experiments: ``run`` makes them.
            identity.Refused: the current user may not make passes.
        """
        return self._asked(n, directly)

    def _asked(self, n: int, call: Caller) -> "pd.DataFrame":
        acting(self._settings, "operate")
        n = count("ask: n", n)
        site = site_for(self._settings, self.name)
        if not site.campaign.dispatcher.by_people:
            raise InputError(
                f"ask: the experiments of {self.name} are run by {site.campaign.spec.dispatcher.kind!r}: call run(), "
                "or begin a campaign with the dispatcher lab."
            )
        with pass_lease(self._ledger, self.name) as lease:
            self._pass(lease, call, asked=0)
            while (lack := n - len(self._free())) > 0 and self.finished is None:
                if not self._pass(lease, call, asked=lack).proposed:
                    break
            trials = self._free()[:n]
            given, out = ([trial.id for trial in some] for some in (trials, self._waiting()))
            self._ledger.fenced(lease).give(self.name, given, out)
        self._seen |= {trial.id: trial for trial in trials}
        return asked_table(self._record, trials)

    def _waiting(self) -> Sequence[Trial]:
        return self._ledger.trials(self.name, states=_WAITING)

    def _free(self) -> list[Trial]:
        waiting, taken = self._waiting(), self._ledger.given(self.name)
        return [trial for trial in waiting if trial.id not in taken]

    def tell(
        self,
        trial: str,
        results: Results | None,
        *,
        sd: Results | None = None,
        ran: Mapping[str, Any] | None = None,
        field: "xr.Dataset | Path | None" = None,
        note: str = "",
        reason: str = "",
        infeasible: bool = False,
    ) -> str:
        """Record the results of a trial. Told again, other results correct the first, which are kept.

        Args:
            trial: Its id.
            results: Outputs by name, in their units; a number where there is one output; None if the experiment
                failed, which needs a ``reason``.
            sd: Standard deviations of outputs.
            ran: Variables that were run otherwise than asked.
            field: The field: a dataset, or a file as ``fieldcraft record --field`` takes it.
            note: Remarks.
            reason: Reason of a failure or a correction.
            infeasible: True if it failed because of the design itself, which the model then learns.

        Returns:
            What was recorded, in a line.

        Raises:
            InputError: the trial is unknown or was not sent, or a value, a name, a unit or the field is wrong.
        """
        person, site = acting(self._settings, "operate"), site_for(self._settings, self.name)
        if not isinstance(trial, str):
            raise InputError(f"tell: trial is {trial!r}: give the id of one trial. Nothing was recorded.")
        if (told := known_trial(site.ledger, trial)).campaign != self.name:
            raise InputError(f"{trial} is a trial of {told.campaign!r}, not of {self.name!r}. Nothing was recorded.")
        if results is None:
            give_up = interventions.rule_out if infeasible else interventions.abandon
            return f"{trial}: {give_up(site.ledger, self._settings, person, trial, reason).state}, {reason}"
        with tempfile.TemporaryDirectory() as folder:
            measured = Measurement(
                trial=trial,
                values=self._named(site, results),
                sd={} if sd is None else self._named(site, sd),
                ran=as_run(site.campaign.problem.space, {} if ran is None else ran),
                field=field if field is None or isinstance(field, Path) else _file(field, Path(folder)),
                note=note,
            )
            corrected = ""
            if others := contradicted(told, told.attempt, site.ledger.results(trial), measured.values):
                check_correction(site, measured)  # all of it, before a part of it is kept
                values, sd = ({n: of[n] for n in others if n in of} for of in (measured.values, measured.sd))
                again = dataclasses.replace(measured, values=values, sd=sd)
                corrected = self._corrected(site, again, person.name, reason)
                if len(others) == len(measured.values):
                    return corrected
            if told.state is not TrialState.COMPLETED or measured.values.items() <= (told.outputs or {}).items():
                done = record(site, check(site, measured), person.name, "notebook")
                return f"{corrected} {done.text}".strip()
            return self._corrected(site, measured, person.name, reason)

    def _corrected(self, site: Site, measured: Measurement, by: str, reason: str) -> str:
        done = correct(site, check_correction(site, measured), by, reason or "told again in a notebook")
        return f"{measured.trial}: corrected (result {done.result} replaces {done.replaces})."

    def _named(self, site: Site, results: Results) -> dict[str, float]:
        if isinstance(results, Mapping):
            return {name: _number(name, value) for name, value in results.items()}
        names = [output.name for output in site.campaign.problem.measured]
        if len(names) > 1:
            raise InputError(f"tell: one number for the outputs {', '.join(names)}: give each by its name.")
        return {names[0]: _number(names[0], results)}

    def run(self, simulate: Callable[[dict[str, Any]], Any] | None = None, *, trials: int | None = None) -> None:
        """Go on with the campaign, to its end or for a number of results; shown in Prefect as ``fieldcraft run`` is.

        That is where PREFECT_API_URL names a server. No server is started here.

        A call that was interrupted is made again: it goes on. With ``simulate``, a design whose result was not recorded
        by then is simulated again.

        Args:
            simulate: Function of a design that returns its outputs: a number, a mapping or a dataset of fields. It may
                raise ``Infeasible``; any other error leaves the trial waiting. None where a simulator is stated.
            trials: Number of results after which to return.

        Raises:
            Unfinished: the campaign waits for a person.
            FieldcraftError: Prefect's server does not answer.
            InputError: people do its experiments and no function is given, or the reverse; it returns no result; or
                ``trials`` is no whole number of at least 1.
        """
        if simulate is not None and not callable(simulate):
            raise InputError(f"run: simulate is {simulate!r}: give a function of a design.")
        trials = trials if trials is None else count("run: trials", trials)
        by_people = site_for(self._settings, self.name).campaign.dispatcher.by_people
        if by_people == (simulate is None):
            raise InputError(
                f"run: the experiments of {self.name} are told by hand: give simulate, or use ask and tell."
                if by_people
                else f"run: {self.name} states how its designs are simulated: leave simulate out."
            )
        with BackgroundExport(self._settings, self.name):
            if simulate is not None:
                shown(self.name, self._settings, lambda call: self._simulated(simulate, trials, call))
                return
            with listening(Display(lambda: self._ledger, False)):
                shown(self.name, self._settings, lambda call: self._run(trials, call))

    def _simulated(
        self, simulate: Callable[[dict[str, Any]], Any], most: int | None, call: Caller
    ) -> Generator[None, None, None]:
        done = 0
        while most is None or done < most:
            asked = self._asked(1, call)
            for trial in asked.index:
                told = self._ledger.trial(trial)
                if told.state is not TrialState.RUNNING:
                    raise awaited(site_for(self._settings, self.name).campaign, self._ledger)
                try:
                    found = simulate(dict(told.design))
                except Infeasible as error:
                    self.tell(trial, None, reason=str(error), infeasible=True)
                    continue
                self._tell_simulated(trial, found)
            yield
            if asked.empty:
                return
            done += len(asked)

    def _tell_simulated(self, trial: str, found: Any) -> None:
        """Record what a function returned; fields are read by the problem."""
        if found is None:
            raise InputError(f"{trial}: simulate returned None: let it return a number, a mapping or a dataset.")
        if hasattr(found, "data_vars"):
            self.tell(trial, {}, field=found)
        else:
            self.tell(trial, found)

    def _run(self, most: int | None, call: Caller) -> Generator[None, None, None]:
        done, ledger = 0, self._ledger
        campaign = site_for(self._settings, self.name).campaign
        with pass_lease(self._ledger, self.name) as lease:
            while most is None or done < most:
                passed = self._pass(lease, call)
                yield
                done += passed.harvested
                if passed.decision.finished:
                    return
                if passed.decision.wait in ("person", "laboratory") and not passed.approved:
                    raise awaited(campaign, ledger)
                if passed.sent or (passed.decision.wait and not passed.approved):
                    pause(campaign, ledger, passed)

    def _pass(self, lease: Lease, call: Caller, asked: int | None = None) -> Passed:
        return make_pass(Ref(str(self._settings.home), self.name, lease.model_dump()), call, asked)

    @property
    def trials(self) -> "pd.DataFrame":
        """All trials by id: the design as it was run, the outputs, state, iteration, cost; ``best`` for the best one.

        Of several objectives ``best`` is True for the trials of the front, which no other dominates.

        ``attrs["units"]`` has the unit of each column.
        """
        ledger, record = self._ledger, self._record
        for trial in self._waiting():
            self._seen[trial.id] = trial
        known = ledger.summaries(self.name)
        best = best_of(ledger, record, known).trial
        return trials_table(record, known, on_front(record, known) if best is None else [best.id])

    @property
    def fields(self) -> "xr.Dataset":
        """The stored fields of all results that count, lazy, along the dimension ``trial``.

        Raises:
            storage.fields.FieldError: there is none, or they differ in shape.
        """
        done = self._ledger.trials(self.name, states={TrialState.COMPLETED})
        return fields_at(self._settings.fields).stack(
            {trial.id: trial.field for trial in done if trial.field and trial.level is None}
        )

    @overload
    def predict(self, designs: "Designs", of: Literal["objective"] = "objective") -> "pd.DataFrame": ...

    @overload
    def predict(self, designs: "Designs", of: Literal["field"]) -> "xr.Dataset": ...

    def predict(
        self, designs: "Designs", of: Literal["objective", "field"] = "objective"
    ) -> "pd.DataFrame | xr.Dataset":
        """Mean and standard deviation of the objective or of the fields at designs, by the latest model.

        Args:
            designs: A table with a column for each variable, or one or several designs as mappings.
            of: ``objective``, or ``field`` where the model learns from fields.

        Returns:
            Of the objective a table ``mean`` and ``sd``, in its unit. Of fields a dataset: each field's mean ``NAME``
            and standard deviation ``NAME_sd``, along ``design`` and the axes, with units.

        Raises:
            InputError: no model has been trained yet, a design is none of the space, or the model knows no field.
        """
        if of not in ("objective", "field"):
            raise InputError(f"predict: of={of!r}: choose 'objective' or 'field'.")
        site = site_of(str(self._settings.home), self.name, None)
        try:
            rows, index = designs_of(self._record, designs)
            for row in rows:
                site.campaign.space.check(row)
        except (ValueError, InputError) as error:
            raise InputError(f"predict: {error}") from None
        if (model := latest_model(site)) is None:
            raise InputError(f"predict: {self.name} has no model yet: the start's designs come before the first.")
        if of == "field":
            found = predicted_fields(site.campaign.problem, model.posterior, site.campaign.space.encode(rows))
            if found is None:
                raise InputError(
                    f"predict: the latest model of {self.name} ({site.campaign.spec.algorithm.in_words}) knows no "
                    "field. The surrogates emulated_field, field_pod and field_ensemble do, from their 4th result on."
                )
            return found.assign_coords(design=("design", list(index)))
        mean, sd = predicted(model.posterior, site.campaign.space.encode(rows))
        return predictions_table(self._record, index, mean.tolist(), sd.tolist())


def _file(field: "xr.Dataset", folder: Path) -> Path:
    """A dataset as a netCDF file, which is then checked as any file that people hand in."""
    if not hasattr(field, "to_netcdf"):
        raise InputError(f"tell: field is {field!r}: give a dataset, or the file as a Path. Nothing was recorded.")
    file = folder / "field.nc"
    try:
        field.to_netcdf(file, engine="h5netcdf")
    except (ValueError, TypeError) as error:
        raise FieldcraftError(f"field: the dataset cannot be written ({error}). Give numbers and texts.") from None
    return file


def _number(name: str, value: Any) -> float:
    """A result that was told: a number, its text, or an array of one.

    Raises:
        InputError: it is something else, or not finite.
    """
    import numpy as np

    if isinstance(value, str):
        return number(value, f"tell: {name}")
    found = np.asarray(value)
    if found.size != 1 or found.dtype.kind not in "iuf":
        raise InputError(f"tell: {name} is {value!r}: give one number. Nothing was recorded.")
    return number(repr(float(found.item())), f"tell: {name}")
