"""Named tensors as datasets: equal to the bit after a store, in few arrays, and as earlier versions wrote them."""

import pytest
import torch

from fieldcraft.flows.wiring.tensors import as_dataset, as_ever_stored, as_state
from fieldcraft.storage.fields import fields_at

STATE = {
    "a/b c": torch.tensor([[0.1, float("nan")], [-0.0, float("inf")]], dtype=torch.float64),
    "": torch.tensor(3.0, dtype=torch.float64),
    "bytes": torch.tensor([7, 255], dtype=torch.uint8),
    "none": torch.empty((0, 3), dtype=torch.float64),
    "true": torch.tensor(True),
    "steps": torch.tensor([[5]]),
    "turned": torch.arange(6, dtype=torch.float64).reshape(2, 3).mT,
    "single": torch.tensor([1 / 3], dtype=torch.float32),
}


def test_tensors_of_one_type_are_one_array():
    assert sorted(as_dataset(STATE).data_vars) == ["bool", "float32", "float64", "int64", "uint8"]


@pytest.mark.parametrize("state", [STATE, {}], ids=["many", "none"])
def test_tensors_come_back_from_a_store_to_the_bit_also_as_earlier_versions_stored_them(state, tmp_path):
    store = fields_at(tmp_path)
    forms = list(as_ever_stored(as_dataset(state)))
    assert len(forms[1].data_vars) == len(state)
    for form in forms:
        found = as_state(store.read(store.write("model", form)))
        assert list(found) == list(state)
        for name, tensor in state.items():
            assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
            assert found[name].numpy().tobytes() == tensor.contiguous().numpy().tobytes()


def test_what_an_earlier_version_stored_has_one_form():
    *_, earlier = as_ever_stored(as_dataset(STATE))
    assert list(as_ever_stored(earlier)) == [earlier]
