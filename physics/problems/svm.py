"""Tune a support vector machine that sorts short texts by subject: two numbers on logarithmic scales."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fieldcraft.physics.problem import Optimum, Output, Problem
from fieldcraft.physics.space import Continuous, Design, SearchSpace

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_TEXTS, _SUBJECTS, _WORDS, _FOLDS = 600, 10, 1500, 5
# Share of a text's words that are of a subject at all, and of these the share of the text's own subject.
_SUBJECT_MATTER, _OWN = 0.4, 0.75
# Counts of Dirichlet distributions: few words make up a subject, and subjects are of similar frequency.
_FEW, _SIMILAR = 0.03, 20.0


@dataclass(frozen=True)
class SVM(Problem):
    """Cross-validated error of a support vector machine by its penalty C and its kernel's coefficient gamma.

    As in the paper on PK-MIQP (004) a text becomes the inverse-frequency weights of its words, and scikit-learn's
    C-support classifier with the kernel exp(-gamma |x - x'|^2) is tested in five folds; C and gamma lie in
    [0.01, 1000]. The paper's 20 newsgroups must be fetched from the network. Here a fixed seed draws 600 texts of about
    60 words: most of them common words by Zipf's law, the others of the text's subject, one of ten, or of another;
    subjects are alike in pairs. The objective is piecewise constant: it counts texts.

    The least error of a grid of 51 x 51 designs is recorded as ``GRID_BEST``, where it is. It is not proven to be the
    least of all, and so ``optimum`` is None.
    """

    @property
    def space(self) -> SearchSpace:
        """log10 C and log10 gamma, from -2 to 3; gamma is in units of an inverse squared distance of unit vectors."""
        return SearchSpace((Continuous("log10_C", -2.0, 3.0), Continuous("log10_gamma", -2.0, 3.0)))

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Share of the texts whose subject is mistaken, from 0 to 1."""
        return (Output("error"),)

    @property
    def sd(self) -> float:
        """Standard deviation over the space, of the grid."""
        return 0.269

    def function(self, design: Design) -> Mapping[str, float]:
        """The outputs of a design, for the simulator ``function``."""
        return {"error": cross_validated_error(10.0 ** float(design["log10_C"]), 10.0 ** float(design["log10_gamma"]))}


GRID_BEST = Optimum({"log10_C": 1.5, "log10_gamma": -0.4}, 87 / 600)
"""One of the designs of least error among the 51 x 51 with coordinates -2, -1.9, ..., 3, and its error."""


def cross_validated_error(penalty: float, gamma: float) -> float:
    """Share of the texts that a machine trained on the other folds puts under a wrong subject.

    Args:
        penalty: C > 0.
        gamma: Coefficient > 0 of the squared distance.
    """
    from sklearn.svm import SVC

    wrong = 0
    for fold in _folds():
        machine = SVC(C=penalty, kernel="precomputed").fit(np.exp(-gamma * fold.within), fold.known)
        wrong += int(np.sum(machine.predict(np.exp(-gamma * fold.across)) != fold.asked))
    return wrong / _TEXTS


@dataclass(frozen=True, eq=False)
class _Fold:
    """Squared distances among n training texts (n, n) and from k test texts to them (k, n), with the subjects."""

    within: Array
    across: Array
    known: Labels
    asked: Labels


def texts(rng: np.random.Generator) -> tuple[Array, Labels]:
    """Counts of the words of each text, shape (texts, words), and each text's subject, shape (texts,)."""
    common = 1.0 / np.arange(1, _WORDS + 1)
    pairs = rng.dirichlet(np.full(_WORDS, _FEW), _SUBJECTS // 2)
    subjects = 0.5 * rng.dirichlet(np.full(_WORDS, _FEW), _SUBJECTS) + 0.5 * np.repeat(pairs, 2, axis=0)
    own = rng.choice(_SUBJECTS, _TEXTS, p=rng.dirichlet(np.full(_SUBJECTS, _SIMILAR)))
    other = rng.integers(_SUBJECTS, size=_TEXTS)
    matter = _OWN * subjects[own] + (1 - _OWN) * subjects[other]
    share = 2 * _SUBJECT_MATTER * rng.beta(2.0, 2.0, size=(_TEXTS, 1))
    chances = (1 - share) * common / common.sum() + share * matter
    lengths = 10 + rng.poisson(50, size=_TEXTS)
    return rng.multinomial(lengths, chances).astype(np.float64), own


@lru_cache(maxsize=1)
def _folds() -> tuple[_Fold, ...]:
    # Imported here: it takes a second, which only the process that sorts texts should pay.
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.model_selection import StratifiedKFold

    counts, subjects = texts(np.random.default_rng(0))
    folds = []
    for train, test in StratifiedKFold(_FOLDS).split(counts, subjects):
        weights = TfidfTransformer().fit(counts[train])  # of unit length, so that |x - x'|^2 = 2 - 2 x.x'
        known, asked = (weights.transform(counts[part]).toarray() for part in (train, test))
        folds.append(_Fold(2 - 2 * known @ known.T, 2 - 2 * asked @ known.T, subjects[train], subjects[test]))
    return tuple(folds)
