"""ResNet-18 learns as on the reference release, from the same weights on the same batches."""

from __future__ import annotations

import numpy as np

from tests.reference.resnet18 import train

# What the reference release prints for resnet18.py; the last is the mean |logit| in evaluation.
LOSSES = [2.6730418, 2.3966618, 2.5967197]
LOGITS = 9.6994667


def test_three_steps() -> None:
    *losses, logits = train()
    np.testing.assert_allclose(losses, LOSSES, rtol=1e-4)
    np.testing.assert_allclose(logits, LOGITS, rtol=1e-3)
