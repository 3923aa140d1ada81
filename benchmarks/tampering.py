"""Changed classifiers that a campaign's images tell, by the number of images.

    python benchmarks/tampering.py FOLDER ... [--changed 1000] [--earlier FILE] [--json FILE]

FOLDER is where `fieldcraft compare studies/neural-bo.yaml --out FOLDER` (or studies/neural-cbo.yaml) has run its
problem `samples`. The images of a campaign are those of its best results, of feasible designs alone if they are to be
realistic; a campaign with fewer has those that it has. Normal noise is added to each weight of the classifier, of a
deviation of 0.3, and this is done 1,000 times, the same for all. An image tells the change if its most probable digit
is another one then; a set of images if one of them does. `images of the set` are random ones of those that the
classifier has not seen.

A campaign that the study took from an earlier run has no images in its folder: its row is that of ``--earlier``.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problems.digits import IMAGE
from fieldcraft.physics.problems.sensitive_samples import SensitiveSamples, held_out, probabilities
from fieldcraft.storage.open_ledger import open_ledger

PROBLEM = "samples"
MOST = 10
"""Images of a campaign, at most."""
NOISE = 0.3
"""Standard deviation of what is added to each weight: of the digits not seen 90% are right then, before 96%."""
SEEDS = 10
"""Random sets of images."""

Array = NDArray[np.float64]


def changed_weights(count: int) -> Array:
    """Weights of so many changed classifiers, shape (count, 10, 65)."""
    own = SensitiveSamples().weights
    return np.asarray(own + NOISE * np.random.default_rng(0).normal(size=(count, *own.shape)))


def rates(images: Array, changed: Array) -> list[float]:
    """Share of changed classifiers that the first 1, 2, ... ``MOST`` of the images (n, 8, 8) tell; zeros for none."""
    if not len(images):
        return [0.0] * MOST
    before = probabilities(SensitiveSamples().weights, images).argmax(axis=1)
    differs = np.array([probabilities(weights, images).argmax(axis=1) != before for weights in changed])
    return [float(differs[:, :count].any(axis=1).mean()) for count in range(1, MOST + 1)]


def images_of(folder: Path, campaign: str) -> Array:
    """Images of the best results of a campaign, the best first, at most ``MOST``, shape (n, 8, 8)."""
    trials = open_ledger(folder / "cells" / campaign / "ledger.sqlite").trials(campaign)
    found = [(trial.outputs, trial.actual["image"]) for trial in trials if trial.outputs is not None]
    feasible = [(outputs["sensitivity"], text) for outputs, text in found if outputs.get("unreal", 0.0) <= 0]
    best = sorted(feasible, key=lambda each: each[0], reverse=True)[:MOST]
    return np.array([IMAGE.pixels(text) for _, text in best]).reshape(-1, *IMAGE.shape)


def measured(
    folder: Path, changed: Array, earlier: Mapping[tuple[str, str, int], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """A row for each finished campaign of a study on the problem, of those without images from ``earlier``."""
    study = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    for cell in study["cells"]:
        if cell["problem"] != PROBLEM or cell["state"] != "finished":
            continue
        of = (study["study"], cell["algorithm"], cell["seed"])
        if not (folder / "cells" / cell["cell"] / "ledger.sqlite").exists():
            if of not in earlier:
                raise SystemExit(f"{folder} has no images of {cell['cell']}: give --earlier a file with its row.")
            yield earlier[of]
            continue
        images = images_of(folder, cell["cell"])
        row = dict(zip(("study", "method", "seed"), of, strict=True))
        yield {**row, "images": len(images), "rates": rates(images, changed)}


def of_the_set(changed: Array) -> Iterator[dict[str, Any]]:
    """Rows of random images of the set."""
    images, _ = held_out()
    for seed in range(1, SEEDS + 1):
        some = images[np.random.default_rng(seed).permutation(len(images))[:MOST]]
        yield {"study": "", "method": "images of the set", "seed": seed, "images": MOST, "rates": rates(some, changed)}


def accuracies(changed: Array) -> dict[str, float]:
    """Share of the digits not seen that the classifier, and on the mean the changed ones, get right."""
    images, digits = held_out()
    right = [float(np.mean(probabilities(weights, images).argmax(axis=1) == digits)) for weights in changed]
    own = probabilities(SensitiveSamples().weights, images).argmax(axis=1)
    return {"before": float(np.mean(own == digits)), "changed": mean(right)}


def main() -> None:
    """Print the mean rates, and write all of them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--changed", type=int, default=1000)
    parser.add_argument("--earlier", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    changed = changed_weights(chosen.changed)
    before = json.loads(chosen.earlier.read_text(encoding="utf-8"))["rows"] if chosen.earlier else []
    earlier = {(row["study"], row["method"], row["seed"]): row for row in before}
    rows = [*(row for folder in chosen.folders for row in measured(folder, changed, earlier)), *of_the_set(changed)]
    found: Mapping[str, Any] = {"changed": chosen.changed, "accuracy": accuracies(changed), "rows": rows}
    print(f"right {found['accuracy']['before']:.3f}, changed {found['accuracy']['changed']:.3f}")
    for study, method in dict.fromkeys((row["study"], row["method"]) for row in rows):
        own = [row for row in rows if (row["study"], row["method"]) == (study, method)]
        told = " ".join(f"{mean(row['rates'][count] for row in own):.2f}" for count in range(MOST))
        print(f"{study:10} {method:18} {len(own):3} campaigns {mean(row['images'] for row in own):5.1f} images  {told}")
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
