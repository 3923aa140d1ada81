"""Charts against the records they are made of, and against plotly's own schema."""

from collections.abc import Sequence

import numpy as np
import pytest
import xarray as xr
from plotly.graph_objects import Figure

from fieldcraft.flows.analysis.emulated_fields import Beside
from fieldcraft.flows.analysis.predicted import Met
from fieldcraft.flows.charts import compare, constraints, evidence, fields, front, model, spending
from fieldcraft.flows.charts.chart import COLOURS, MOST, Chart, ends, numbers, whole
from fieldcraft.flows.charts.page import as_json
from fieldcraft.flows.charts.space import _short, parallel, where
from fieldcraft.flows.charts.trace import trace
from fieldcraft.flows.views.charts import front_chart, hypervolume_chart, new_figure, progress
from fieldcraft.storage.records import CampaignRecord, TrialState, TrialSummary

PAGES = {"white": "#FFFFFF", "dark": "#161B20"}


def campaign(
    *outputs: str, sense: str = "minimize", units: Sequence[str] = ("x", "y"), **more: object
) -> CampaignRecord:
    """A campaign's record with these outputs: the objective, and constraints by a name that begins with g."""
    told = [{"name": name, "unit": "K", "constraint": name.startswith("g")} for name in outputs]
    spec = {"sense": sense, "budget": {"trials": 9, "cost": 40.0, "unit": "EUR"}, **more}
    environment = {"outputs": told, "units": dict.fromkeys(units, "m")}
    return CampaignRecord.model_construct(name="c", spec=spec, environment=environment)


def trial(number: int, design: dict, outputs: dict | None, iteration: int = 1, imported: bool = False) -> TrialSummary:
    state = TrialState.COMPLETED if outputs else TrialState.FAILED
    failure = None if outputs else "permanent"
    return TrialSummary(
        f"c-{number:04d}", number, iteration, state, design, None, outputs, failure, 1.0, 2.0, 3.0, imported, None
    )


def trials(*values: float) -> list[TrialSummary]:
    """A trial of the start, then of the model, at x = its number."""
    return [trial(n, {"x": float(n), "y": 0.5 * n}, {"f": v}, iteration=n - 1) for n, v in enumerate(values, 1)]


def valid(chart: Chart) -> Chart:
    """The chart, if plotly accepts it and its payload is JSON."""
    payload = chart.payload()
    Figure(data=payload["data"], layout=payload["layout"])
    as_json(payload)
    assert all(len(row) == len(chart.head) for row in chart.rows)
    return chart


def named(chart: Chart, name: str) -> dict:
    (found,) = [each for each in chart.data if each["name"] == name]
    return found


def test_a_trace_has_every_result_and_the_best_so_far_at_the_trial_that_found_it():
    of = [
        *trials(5.0, 3.0, 4.0, 1.0),
        trial(5, {"x": 5.0, "y": 0.0}, None),
        trial(6, {"x": 6.0, "y": 0.0}, {"f": 2.0}, 0, True),
    ]
    chart = valid(trace(campaign("f"), of, None))
    assert (named(chart, "start")["x"], named(chart, "start")["y"]) == ([1], [5.0])
    assert (named(chart, "proposed")["x"], named(chart, "proposed")["y"]) == ([2, 3, 4], [3.0, 4.0, 1.0])
    assert (named(chart, "imported")["x"], named(chart, "imported")["y"]) == ([6], [2.0])
    assert named(chart, "no result")["x"] == [5]
    assert (named(chart, "best so far")["x"], named(chart, "best so far")["y"]) == ([1, 2, 4, 6], [5.0, 3.0, 1.0, 1.0])
    assert [row[-1] for row in chart.rows] == [5.0, 3.0, 3.0, 1.0, 1.0]
    assert (
        "c-0002" in named(chart, "proposed")["hovertext"][0] and "x = 2 m" in named(chart, "proposed")["hovertext"][0]
    )


def test_results_and_designs_that_differ_in_the_eighth_figure_are_drawn_apart():
    of = [trial(n, {"x": 1e6 + 0.1 * n, "y": 0.0}, {"f": -1523.4567 - 1e-4 * n}, iteration=n) for n in range(1, 4)]
    record = campaign("f")
    record.environment["figures"] = {"x": 8}  # as a space of so narrow a range has it
    chart = valid(trace(record, of, None))
    assert named(chart, "proposed")["y"] == named(chart, "best so far")["y"][:3] == [-1523.4568, -1523.4569, -1523.457]
    assert named(where(record, of), "trials")["x"] == [1000000.1, 1000000.2, 1000000.3]
    assert [row[2] for row in chart.rows] == [1000000.1, 1000000.2, 1000000.3]


@pytest.mark.parametrize("optimum", [-7.0, 0.99, 30.0])
def test_the_optimum_and_the_threshold_lie_within_the_scale(optimum):
    chart = trace(campaign("f"), trials(5.0, 3.0, 1.0), optimum, threshold=-2.0)
    low, high = chart.layout["yaxis"]["range"]
    levels = [shape["y0"] for shape in chart.layout["shapes"]]
    assert levels == [optimum, -2.0]
    assert all(low < value < high for value in (*levels, 5.0, 3.0, 1.0))


def test_one_far_result_does_not_flatten_the_others_and_is_told_at_the_edge():
    values = [*np.linspace(1.0, 2.0, 20), 300.0]
    chart = valid(trace(campaign("f"), trials(*values), 0.9))
    low, high = chart.layout["yaxis"]["range"]
    assert low < 0.9 and 2.0 < high < 4.0
    beyond = named(chart, "beyond the scale")
    assert (beyond["x"], beyond["y"]) == ([21], [pytest.approx(high, rel=1e-5)])
    assert 300.0 in named(chart, "proposed")["y"]


def test_infeasible_results_are_no_best_and_margins_are_below_the_line_where_met():
    of = [trial(n, {"x": 1.0, "y": 1.0}, {"f": f, "g1": g}) for n, (f, g) in enumerate(((1.0, 2.0), (3.0, -4.0)), 1)]
    record = campaign("f", "g1")
    chart = valid(trace(record, of, None))
    assert named(chart, "best so far")["y"] == [3.0, 3.0]
    assert named(chart, "proposed, not feasible")["y"] == [1.0]
    assert constraints.margins(record, of).data[0]["y"] == [0.5, -1.0]
    assert [row[1] for row in valid(constraints.violation(record, of)).rows] == [2.0, 0.0]
    assert constraints.margins(campaign("f"), trials(1.0)) is None


def test_a_picture_has_the_best_so_far_up_to_the_last_result():
    of = [trial(n, {"x": 1.0, "y": 1.0}, {"f": 9.0 - n, "g1": n - 2.5}) for n in range(1, 6)]
    axis = new_figure(7.4, 3.4).subplots()
    progress(axis, campaign("f", "g1"), of, None)
    (best,) = [line for line in axis.get_lines() if line.get_label() == "best so far"]
    assert (list(best.get_xdata()), list(best.get_ydata())) == ([1, 2, 5], [8.0, 7.0, 7.0])


def test_a_picture_without_a_result_says_so_and_has_no_scale():
    failed = [trial(1, {"x": 1.0, "y": 1.0}, None)]
    pair = campaign("f", "h")
    pair.environment["outputs"] = [{"name": n, "unit": "K", "objective": "minimize", "reference": 1.0} for n in "fh"]
    objectives = [{"output": n, "unit": "K", "sense": "minimize", "reference": None} for n in "fh"]
    axes = new_figure(7.4, 3.4).subplots(1, 3)
    progress(axes[0], campaign("f"), failed, None)
    front_chart(axes[1], pair, failed, *objectives, None)
    hypervolume_chart(axes[2], pair, failed, None)
    for axis in axes:
        assert [text.get_text() for text in axis.texts] == ["no result"]
        assert not len(axis.get_xticks()) and not len(axis.get_yticks())
        assert axis.get_legend() is None
    told = new_figure(7.4, 3.4).subplots()
    progress(told, campaign("f"), trials(1.0, 2.0), None)
    assert not told.texts and len(told.get_yticks())


@pytest.mark.parametrize("name", ["a result with a very long name " * 6, "a_result_with_a_very_long_name_" * 6])
def test_a_label_of_any_length_lies_within_the_picture(name):
    axis = new_figure(5.5, 4.4).subplots()
    progress(axis, campaign(name), [trial(1, {"x": 1.0, "y": 1.0}, {name: 2.0})], None)
    axis.figure.canvas.draw()
    drawn = axis.yaxis.label.get_window_extent()
    assert drawn.y0 >= 0 and drawn.y1 <= axis.figure.bbox.height


def test_trials_lie_where_their_designs_are():
    of = trials(5.0, 3.0, 4.0)
    plane = valid(where(campaign("f"), of, proposal={"x": 9.0, "y": 8.0}))
    marks, best, proposal = plane.data
    assert (marks["x"], marks["y"], marks["marker"]["color"]) == ([1.0, 2.0, 3.0], [0.5, 1.0, 1.5], [5.0, 3.0, 4.0])
    assert (best["x"], best["y"], proposal["x"], proposal["y"]) == ([2.0], [1.0], [9.0], [8.0])
    only = [each._replace(design={"x": each.design["x"]}) for each in of]
    line = valid(where(campaign("f", units=("x",)), only, proposal={"x": 9.0}))
    assert named(line, "proposed")["x"] == [2.0, 3.0] and named(line, "proposed")["y"] == [3.0, 4.0]
    assert line.layout["shapes"][0]["x0"] == 9.0
    field = xr.DataArray(
        np.arange(12.0).reshape(3, 4), dims=("y", "x"), coords={"x": range(4), "y": range(3)}, name="f"
    )
    over = valid(where(campaign("f"), of, field, optimum=-50.0))
    assert over.data[0]["zmin"] == -50.0 and over.data[0]["zmax"] >= 10.0, "the scale holds the optimum"


def over_decades() -> CampaignRecord:
    """A campaign whose first variable has a logarithmic scale."""
    linear = campaign("f")
    return linear.model_copy(update={"environment": {**linear.environment, "log": ["x"]}})


def test_a_variable_over_decades_has_a_logarithmic_axis():
    of = [trial(n, {"x": 10.0**n, "y": float(n)}, {"f": 1.0 * n}) for n in (-3, 0, 1)]
    layout = valid(where(over_decades(), of)).layout
    assert (layout["xaxis"]["type"], "type" in layout["yaxis"]) == ("log", False)
    axes = np.geomspace(1e-4, 1e2, 7), np.arange(7.0)
    (mean, *_) = model.plane(over_decades(), ("x", "y"), axes, np.zeros((7, 7)), np.zeros((7, 7)), (0, 1))
    assert valid(mean).layout["xaxis"]["range"] == pytest.approx([-4.5, 2.5])  # decades, half a cell beyond the ends
    lines = valid(parallel(over_decades(), of))
    heights = sorted(row for each in lines.data for row in each["y"][:1])
    assert heights == pytest.approx([0, 0.75, 1])
    assert [note["text"] for note in lines.layout["annotations"][:3]] == ["0.001", "0.1", "10"]


def test_a_line_of_parallel_coordinates_goes_through_its_design_and_the_best_lies_on_top():
    of = [trial(n, {"x": float(n), "y": 7.0, "z": z}, {"f": float(n)}) for n, z in ((1, "a"), (2, "b"), (3, "c"))]
    chart = valid(parallel(campaign("f", units=("x", "y", "z")), of, proposal={"x": 3.0, "y": 7.0, "z": "b"}))
    *lines, proposal = chart.data
    assert [line["y"] for line in lines] == [
        [1.0, 0.5, 1.0, 1.0, None],
        [0.5, 0.5, 0.5, 0.5, None],
        [0.0, 0.5, 0.0, 0.0, None],
    ]
    assert proposal["y"] == [1.0, 0.5, 0.5]
    assert not any(each["type"] in ("parcoords", "scattergl", "splom") for each in chart.data), "these need eval"


def test_of_very_many_trials_the_best_are_drawn_and_all_are_in_the_data():
    of = trials(*np.random.default_rng(0).permutation(MOST + 200).astype(float))
    chart = trace(campaign("f"), of, None)
    drawn = {value for each in chart.data if each["name"] in ("start", "proposed") for value in each["y"]}
    assert drawn == set(map(float, range(MOST)))
    assert len(chart.rows) == MOST + 200


def test_a_field_is_coarsened_to_means_over_blocks():
    axes = {"x": np.arange(130.0), "y": np.arange(64.0)}
    values = np.add.outer(axes["x"], 0 * axes["y"])
    small, cells = fields.coarse(axes, values)
    assert cells.shape == (64, 64) and small["x"].shape == (64,)
    np.testing.assert_allclose(cells[:, 0], small["x"])
    assert cells[0, 0] == 0.5, "the mean of cells 0 and 1"
    same, untouched = fields.coarse({"x": axes["y"]}, axes["y"])
    assert (same["x"] == axes["y"]).all() and (untouched == axes["y"]).all()


def test_a_map_has_each_value_at_its_place():
    array = xr.DataArray(
        [[1.0, 2.0, 3.0], [4.0, 5.0, np.nan]], dims=("x", "y"), coords={"x": [0.0, 1.0], "y": [0, 1, 2]}, name="T"
    )
    chart = valid(fields.field("Field", array))
    assert chart.data[0]["z"] == [[1.0, 4.0], [2.0, 5.0], [3.0, None]]
    assert chart.rows[2] == [0.0, 2.0, 3.0]
    assert fields.field("Field", array.isel(x=0, y=0)) is None
    (read,) = valid(fields.field("Field", xr.DataArray([71.3, 88.9, 93.5], dims="place", name="T"))).data
    assert (read["mode"], read["x"], read["y"]) == ("markers", [1.0, 2.0, 3.0], [71.3, 88.9, 93.5])
    assert (
        fields.field("Field", xr.DataArray(np.zeros((4, 3, 2)), dims=("t", "x", "y"), name="T")).data[0]["z"]
        is not None
    )


def test_a_slider_shows_one_field_at_a_time_on_one_scale():
    arrays = {f"c-{n}": xr.DataArray([0.0, float(n)], dims=("x",), name="T") for n in range(1, 40)}
    chart = valid(fields.slider("Fields", arrays))
    assert len(chart.data) == fields.SHOWN
    steps = chart.layout["sliders"][0]["steps"]
    assert [step["label"] for step in steps] == list(arrays)[-fields.SHOWN :]
    for place, step in enumerate(steps):
        assert step["args"][0]["visible"] == [i == place for i in range(len(steps))]
    assert [each["visible"] for each in chart.data] == steps[-1]["args"][0]["visible"]
    assert chart.data[0]["y"] == [0.0, 16.0]


def test_a_field_and_its_prediction_share_a_scale_and_the_difference_is_centred():
    axes = {"x": np.arange(3.0), "y": np.arange(2.0)}
    emulated, simulated = np.arange(6.0).reshape(3, 2), np.arange(6.0).reshape(3, 2) + np.array([[0.0, 3.0]])
    twice = Beside("T", "K", axes, {"x": "m", "y": "m"}, emulated, simulated)
    predicted, real, apart = map(valid, fields.twice(twice))
    assert predicted.data[0]["zmin"] == real.data[0]["zmin"] and predicted.data[0]["zmax"] == real.data[0]["zmax"]
    assert apart.data[0]["z"] == [[0.0] * 3, [3.0] * 3] and apart.data[0]["zmin"] == -3.0
    flat = Beside("T", "K", {"x": np.arange(3.0)}, {"x": "m"}, emulated[:, 0], simulated[:, 1])
    (lines,) = map(valid, fields.twice(flat))
    assert [each["y"] for each in lines.data] == [[4.0, 6.0, 8.0], [0.0, 2.0, 4.0]]


def test_values_far_from_zero_that_lie_close_together_are_drawn_apart():
    near = [100000.17, 100000.98, 100000.25]
    chart = valid(trace(campaign("f"), trials(*near), None))
    assert (named(chart, "start")["y"], named(chart, "proposed")["y"]) == (near[:1], near[1:])
    assert named(chart, "best so far")["y"] == [near[0], near[0]]
    array = xr.DataArray([near, near], dims=("x", "y"), coords={"x": [0.0, 1.0], "y": [0, 1, 2]}, name="T")
    (drawn,) = valid(fields.field("Field", array)).data
    assert drawn["z"] == [[value, value] for value in near]
    assert 100000.17 <= drawn["zmin"] < 100000.2 and 100000.9 < drawn["zmax"] <= 100000.98
    met = [Met(each, near[0], near[1], 0.1234) for each in trials(near[0])]
    points = named(valid(model.foreseen(campaign("f"), "f", met)), "trials")
    assert (points["x"], points["y"]) == (near[:1], near[1:2])
    assert "predicted 100000.98 ± 0.123" in points["hovertext"][0]
    assert numbers([1 / 3, 2 / 3]) == [0.333333, 0.666667] and numbers([0.0, 1e-9 / 3]) == [0.0, 3.33333e-10]
    assert numbers([1.0, 1.0 + 1e-15]) == [1.0, 1.0], "rounding is no difference"


def test_a_setting_of_a_narrow_range_is_told_apart_under_the_pointer_and_in_the_data():
    record = campaign("f")
    record.environment["figures"] = {"x": 10}
    near = [trial(n, {"x": 1550 + n / 300, "y": 1 / 3}, {"f": 100000 + n / 3}) for n in (1, 2)]
    chart = valid(trace(record, near, None))
    assert [row[2:5] for row in chart.rows] == [
        [1550.003333, 0.333333, 100000.333333],
        [1550.006667, 0.333333, 100000.666667],
    ]
    hover = named(chart, "proposed")["hovertext"]
    assert "x = 1550.003333 m" in hover[0] and "y = 0.333333 m" in hover[0] and "f = 100000 K" in hover[0]


def test_predictions_stand_against_results_with_two_standard_deviations():
    met = [Met(each, v, m, 0.5) for each, v, m in zip(trials(1.0, 2.0), (1.0, 2.0), (1.5, 1.8), strict=True)]
    chart = valid(model.foreseen(campaign("f"), "f", met))
    points = named(chart, "trials")
    assert (points["x"], points["y"], points["error_y"]["array"]) == ([1.0, 2.0], [1.5, 1.8], [1.0, 1.0])
    line = valid(model.along(campaign("f"), trials(1.0), "x", np.arange(3.0), np.array([1.0, np.nan, 3.0]), np.ones(3)))
    assert named(line, "predicted")["y"] == [1.0, None, 3.0]
    assert named(line, "two standard deviations")["y"] == [3.0, 5.0, 1.0, -1.0]


def test_time_cost_scores_and_curves_are_those_told():
    time = valid(spending.times(trials(1.0, 2.0, 3.0), {1: 7.0}, "simulation"))
    assert [each["y"] for each in time.data] == [[3.0, 3.0, 3.0], [0.0, 7.0, 0.0]]
    untold = [trial._replace(seconds=None) for trial in trials(1.0, 2.0)]
    assert spending.times(untold, {1: 0.0}, "experiment") is None
    assert spending.times(untold, {1: 7.0}, "experiment") is not None
    cost = valid(spending.cost(campaign("f"), trials(1.0, 2.0, 3.0)))
    assert cost.data[0]["y"] == [2.0, 4.0, 6.0]
    assert cost.layout["yaxis"]["range"][1] > 40.0 == cost.layout["shapes"][0]["y0"]
    scores = valid(evidence.scores({1: {"gp": -3.0, "pinn": -1.0}, 2: {}, 3: {"gp": -2.0, "pinn": -2.5}}))
    assert {each["name"]: each["y"] for each in scores.data} == {"gp": [-2.0, 0.0], "pinn": [0.0, -0.5]}
    assert evidence.scores({1: {}}) is None
    lines = [compare.Curve("a", [1, 2], [4.0, 2.0], [1.0, 0.5]), compare.Curve("b", [1], [3.0])]
    curves = valid(compare.curves("Best", "f (K)", lines, optimum=-9.0))
    assert [each["y"] for each in curves.data] == [[5.0, 2.5, 1.5, 3.0], [4.0, 2.0], [3.0]]
    assert curves.layout["yaxis"]["range"][0] < -9.0


def test_a_front_has_those_that_none_beats_and_the_design_under_the_pointer():
    record = campaign("a", "b")
    goal = {"unit": "", "objective": "minimize", "reference": 9.0}
    record.environment["outputs"][:] = [{"name": name, **goal} for name in ("a", "b")]
    of = [trial(n, {"x": float(n), "y": 0.0}, {"a": a, "b": b}) for n, (a, b) in enumerate(((1, 5), (2, 2), (3, 3)), 1)]
    (chart,) = map(valid, front.fronts(record, of, "c-0002"))
    assert sorted(zip(named(chart, "front")["x"], named(chart, "front")["y"], strict=True)) == [(1.0, 5.0), (2.0, 2.0)]
    assert (named(chart, "picked")["x"], named(chart, "picked")["y"]) == ([2.0], [2.0])
    assert named(chart, "result")["x"] == [3.0] and "x = 3 m" in named(chart, "result")["hovertext"][0]
    axis = new_figure(4.0, 3.0).subplots()
    front_chart(axis, record, of, *front.pairs(record, of)[0], "c-0002")
    (ring,) = (each for each in axis.lines if each.get_label() == "picked")
    assert ring.get_xydata().tolist() == [[2.0, 2.0]]
    volume = valid(front.hypervolume(record, of, 70.0))
    assert volume.data[0]["y"] == [32.0, 53.0, 53.0] and volume.layout["yaxis"]["range"][1] > 70.0


def test_text_of_users_is_drawn_as_it_stands_and_ends_no_script():
    hostile = "</script><a href='javascript:1'>&"
    record = campaign(hostile)
    chart = trace(record, [trial(1, {"x": 1.0, "y": 1.0}, {hostile: 1.0})], None)
    assert chart.layout["yaxis"]["title"]["text"].startswith("&lt;/script&gt;&lt;a href")
    text = as_json(chart.payload())
    assert not {"<", ">", "&"} & set(text)


@pytest.mark.parametrize("last", [1, 9, 30, 50, 99, 101, 2600, 10_000])
def test_an_axis_of_trials_has_at_most_ten_whole_steps(last):
    step = whole(last)["dtick"]
    assert isinstance(step, int) and last / step <= 10
    assert last / step > 3 or step == 1
    assert ends([2.0, 2.0])[0] < 2.0 < ends([2.0, 2.0])[1]


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("colour", COLOURS)
def test_every_colour_is_told_from_the_page_in_light_and_in_dark(colour, page):
    """Contrast of at least 3 (WCAG 2.1, 1.4.11); pink on white, of the palette as published, has 2.9."""

    def luminance(code: str) -> float:
        parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))

    light, dark = sorted((luminance(colour), luminance(page)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 2.9


def test_levels_in_order_and_gaps_where_a_variable_does_not_exist():
    of = [trial(n, {"g": g, "x": 1.0 * n, "h": 5.0 * n}, {"f": n}) for n, g in enumerate(("L", "S", "M"), 1)]
    record = campaign("f", units=("g", "x", "h"))
    record.environment.update(orders={"g": ["S", "M", "L"]}, only_if={"h": {"g": ["S", "L"]}})
    chart = valid(parallel(record, of, proposal={"g": "M", "x": 2.0, "h": 9.0}))
    heights = {each["y"][1]: each["y"] for each in chart.data if each["name"] == "trials"}
    assert [y[0] for _, y in sorted(heights.items())] == [1.0, 0.0, 0.5]  # L, S, M
    assert [y[2] for _, y in sorted(heights.items())] == [0.0, pytest.approx(5 / 10), None]
    assert named(chart, "this proposal")["y"][:3] == [0.5, 0.5, None]
    assert [row[-2] for row in chart.rows] == [5.0, 10.0, None]


def test_long_names_of_axes_keep_both_ends():
    assert _short("temperature (degC)") == "temperature (degC)"
    assert _short("temperature_of_the_oven (degC)") == "temperature_of_the_oven"
    names = {_short(f"a_rather_long_variable_name_number_{n} (kg m^-3)") for n in range(20)}
    assert len(names) == 20 and max(map(len, names)) == 24
