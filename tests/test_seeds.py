"""Several seeds in one program end as each by itself."""

import equinox as eqx
import jax
import numpy as np
from seeds import train

from pdecl.family.experiment import basis_of, keys_of, optimiser_of, preset, problem_of, training_phis
from pdecl.report.runs import standard_data
from pdecl.train.fit import fit


def test_seeds_of_one_program_are_trained_as_each_by_itself():
    experiments = [
        preset("burgers", "soft", "quick", seed).with_overrides(
            size=6, width=6, depth=1, steps=4, batch=2, phis=5, metrics_phis=1
        )
        for seed in (0, 1)
    ]
    data = standard_data(experiments[0], None, 1, progress=False)
    together = train(experiments, data, metrics_count=2, tell=lambda text: None)
    for experiment, (basis, history) in zip(experiments, together, strict=True):
        network_key, training_key = keys_of(experiment)
        alone, expected = fit(
            problem_of(experiment),
            basis_of(experiment, network_key),
            optimiser_of(experiment.training),
            steps=4,
            key=training_key,
            method="soft",
            batch=2,
            phis=training_phis(experiment),
            progress=False,
        )
        np.testing.assert_allclose(history.loss, expected.loss, rtol=1e-9)
        assert [row["step"] for row in history.metrics] == [0, 1, 4]
        arrays = [jax.tree.leaves(eqx.filter(one, eqx.is_array)) for one in (basis, alone)]
        for ours, theirs in zip(*arrays, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
