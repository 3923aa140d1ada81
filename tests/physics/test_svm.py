"""SVM: a text classifier's error by its two numbers, against scikit-learn's pipeline, and its recorded truth."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from fieldcraft.physics.problems.svm import GRID_BEST, SVM, cross_validated_error, texts

# Texts by which another version of the libraries may differ: a decision that rounding turns.
_LOOSE = 2 / 600


def error(log10_c, log10_gamma):
    return SVM().function({"log10_C": log10_c, "log10_gamma": log10_gamma})["error"]


@pytest.mark.parametrize(("c", "gamma"), [(3.0, 1.0), (300.0, 0.01)])
def test_the_error_is_that_of_the_papers_pipeline(c, gamma):
    counts, subjects = texts(np.random.default_rng(0))
    pipeline = make_pipeline(TfidfTransformer(), SVC(C=c, gamma=gamma))
    found = cross_val_predict(pipeline, counts, subjects, cv=StratifiedKFold(5))
    assert cross_validated_error(c, gamma) == pytest.approx(np.mean(found != subjects), abs=_LOOSE)


def test_a_text_is_whole_words_and_every_subject_has_some():
    counts, subjects = texts(np.random.default_rng(0))
    assert counts.shape == (600, 1500) and set(subjects.tolist()) == set(range(10))
    lengths = counts.sum(axis=1)
    assert np.array_equal(counts, np.round(counts)) and lengths.min() >= 10
    assert lengths.mean() == pytest.approx(60, abs=4 * np.sqrt(50 / 600)), "10 and a Poisson number of 50"


def test_texts_of_a_pair_of_subjects_share_more_words_than_others():
    counts, subjects = texts(np.random.default_rng(0))
    means = np.array([counts[subjects == subject].mean(axis=0) for subject in range(10)])
    alike = np.corrcoef(means - means.mean(axis=0))
    for subject in range(10):
        others = np.delete(alike[subject], [subject, subject ^ 1])
        assert alike[subject, subject ^ 1] > others.max()


def test_the_recorded_best_of_the_grid_has_its_error_and_a_coarser_grid_none_below():
    assert SVM().function(GRID_BEST.design)["error"] == pytest.approx(GRID_BEST.value, abs=_LOOSE)
    ends = np.linspace(-2.0, 3.0, 5)
    coarse = np.array([[error(c, gamma) for gamma in ends] for c in ends])
    assert coarse.min() >= GRID_BEST.value - _LOOSE
    assert coarse.max() > 0.8, "a kernel that is too narrow learns nothing"
    assert SVM().sd == pytest.approx(coarse.std(), rel=0.15)
    assert SVM().optimum("minimize") is None, "the grid's best is not proven to be the least"
