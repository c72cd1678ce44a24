"""A language model of two LSTM layers.

Zaremba, Sutskever and Vinyals, Recurrent neural network regularization, 2014. The defaults are
small; the paper's medium model is ``LanguageModel(10000, 650, dropout=0.5)``.
"""

import numpy as np

import megengine.functional as F
import megengine.module as M
from megengine import Tensor


class LanguageModel(M.Module):
    """Scores of the next word at each position of a text.

    Dropout goes where it does in the paper: onto the embedding, between the layers and before the
    output, never onto what a layer hands to its own next step.
    """

    def __init__(self, words=50, width=24, layers=2, dropout=0.0):
        super().__init__()
        self.embedding = M.Embedding(words, width)
        self.drop = M.Dropout(dropout)
        self.lstm = M.LSTM(width, width, num_layers=layers, dropout=dropout)
        self.output = M.Linear(width, words)

    def forward(self, words, state=None):
        """Scores (steps, batch, words) and the last state, of word numbers (steps, batch).

        Pass the state on to go on where a text was cut.
        """
        x = self.drop(self.embedding(words))
        y, state = self.lstm(x, state)
        return self.output(self.drop(y)), state

    def loss(self, words, state=None):
        """The mean cross entropy of each word but the first, given those before it."""
        scores, state = self(words[:-1], state)
        target = words[1:].reshape(-1)
        return F.nn.cross_entropy(scores.reshape(target.shape[0], -1), target), state

    def generate(self, start, steps):
        """The likeliest word after each, `steps` times, from a list of word numbers."""
        words, state = list(start), None
        step = Tensor(np.array(words, dtype="int32").reshape(-1, 1))
        for _ in range(steps):
            scores, state = self(step, state)
            step = F.argmax(scores[-1:], axis=2).astype("int32")
            words.append(int(step.numpy()[0, 0]))
        return words
