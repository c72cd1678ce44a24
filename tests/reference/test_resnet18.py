"""ResNet-18 learns as on the reference release, from the same weights on the same batches."""

from __future__ import annotations

import numpy as np

from tests.reference.resnet18 import train

# What the reference release prints for resnet18.py (its fast and its plain kernels agree to 1e-5
# here); the last is the mean |logit| in evaluation.
LOSSES = [2.6730418, 2.5332727, 2.459101]
LOGITS = 7.2313814


def test_three_steps() -> None:
    *losses, logits = train()
    np.testing.assert_allclose(losses, LOSSES, rtol=1e-4)
    np.testing.assert_allclose(logits, LOGITS, rtol=1e-3)
