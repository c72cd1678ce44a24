"""Whole models against the reference release: the same weights, outputs and gradients.

To add a model NAME:

1. Write examples/models/NAME.py: the model from its paper, in plain MegEngine (``import megengine
   as mge`` ...), with nothing that Python 3.9 does not know.
2. Write cases/NAME.py here with a function ``case()`` that gives a ``harness.Case``:

       from examples.models.resnet import ResNet
       from tests.reference.models.harness import Case, floats

       def case():
           return Case(ResNet(depth=18, width=8), [floats("image", 2, 3, 32, 32)])

   Inputs come from ``floats`` and ``integers`` of harness.py. Weights need no care: the harness
   sets every parameter and buffer to numbers that follow from its name and shape. Batch norm
   normalises with the statistics of the batch unless ``train=False``; dropout must be off (rate 0,
   or ``train=False``). Outputs may be a Tensor or nested tuples, lists and dicts of them; gradients
   are of their inner product with fixed numbers. ``loss=True``: the model's output is a scalar, and
   gradients are of that.
   A file that has ``cases()`` instead gives a dict of several, by name.
3. Record it with the reference release, from the root of the repository (a second or so a model):

       REFERENCE_PYTHON tests/reference/models/record.py NAME

   and commit answers/NAME.json. test_models.py then holds us to it: outputs within 1e-4 of the
   largest, gradients of every parameter and input within 1e-3, the updated buffers too.

The reference gets some things wrong, the gradients of recurrent layers among them. Such a case
says so, ``judge="differences", why="..."``: outputs still come from the reference, and gradients
are held to central differences of the model in float64. Where its outputs are wrong too,
``judge="float64"`` holds outputs to the model in float64 as well, and nothing of the reference is
kept.
"""
