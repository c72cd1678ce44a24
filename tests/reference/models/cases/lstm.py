"""The language model of two LSTM layers."""

from examples.models.lstm import LanguageModel
from tests.reference.models.harness import Case, integers

WHY = "the reference's gradients of LSTM are wrong"


def case():
    """A text of nine words, twice."""
    return Case(LanguageModel(), [integers("words", 50, 9, 2)], judge="differences", why=WHY)
