"""A decoder with a cache of its own, and beam search by hand: lists of hypotheses, scores, an early end."""

import heapq
from dataclasses import dataclass, field

import torch
from _common import finish, place, scaled, start
from torch import nn

BOS, EOS, WORDS = 1, 2, 30


@dataclass(order=True)
class Hypothesis:
    score: float
    tokens: list = field(compare=False)
    state: tuple = field(compare=False)

    def normalised(self, alpha=0.6):
        return self.score / ((5 + len(self.tokens)) / 6) ** alpha


class Captioner(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.init_h, self.init_c = nn.Linear(features, hidden), nn.Linear(features, hidden)
        self.embed = nn.Embedding(WORDS, hidden)
        self.cell = nn.LSTMCell(2 * hidden, hidden)
        self.attend = nn.Linear(hidden, features)
        self.value = nn.Linear(features, hidden)
        self.out = nn.Linear(hidden, WORDS)

    def begin(self, regions):
        mean = regions.mean(0, keepdim=True)
        return torch.tanh(self.init_h(mean)), torch.tanh(self.init_c(mean))

    def forward(self, token, state, regions):
        weights = torch.softmax(self.attend(state[0]) @ regions.t(), dim=1)
        seen = self.value(weights @ regions)
        state = self.cell(torch.cat((self.embed(token), seen), dim=1), state)
        return torch.log_softmax(self.out(state[0]), dim=1), state


@torch.no_grad()
def beam_search(model, regions, width=4, longest=12):
    beams, done = [Hypothesis(0.0, [BOS], model.begin(regions))], []
    for _ in range(longest):
        candidates = []
        for beam in beams:
            scores, state = model(torch.tensor(beam.tokens[-1:]), beam.state, regions)
            values, words = scores[0].topk(width)
            for value, word in zip(values.tolist(), words.tolist(), strict=True):
                candidates.append(Hypothesis(beam.score + value, [*beam.tokens, word], state))
        beams = []
        for candidate in heapq.nlargest(width, candidates):
            (done if candidate.tokens[-1] == EOS else beams).append(candidate)
        if not beams or len(done) >= width:
            break
    return max([*done, *beams], key=Hypothesis.normalised)


def main():
    torch.manual_seed(17)
    model = place(Captioner(16, 24).eval())
    total = 0.0
    start()
    for image in range(scaled(600)):
        regions = torch.randn(4 + image % 5, 16)
        best = beam_search(model, regions)
        total += best.normalised()
        if image % 10 == 0:
            print(image, repr(best.score), best.tokens)
    print(repr(total))
    finish(model)


if __name__ == "__main__":
    main()
