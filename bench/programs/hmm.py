"""A hidden Markov model learns by gradient: a forward algorithm over time, Viterbi at the end."""

import torch
from _common import finish, place, scaled, start
from torch import nn


class HMM(nn.Module):
    def __init__(self, states, symbols):
        super().__init__()
        self.states = states
        self.start = nn.Parameter(torch.randn(states))
        self.transition = nn.Parameter(torch.randn(states, states))
        self.emission = nn.Parameter(torch.randn(states, symbols))

    def tables(self):
        return (
            torch.log_softmax(self.start, dim=0),
            torch.log_softmax(self.transition, dim=1),
            torch.log_softmax(self.emission, dim=1),
        )

    def forward(self, x, lengths):
        """The log probability of each sequence."""
        start, transition, emission = self.tables()
        alpha = start + emission[:, x[:, 0]].t()
        alphas = [alpha]
        for t in range(1, x.shape[1]):
            alpha = torch.logsumexp(alpha.unsqueeze(2) + transition, dim=1) + emission[:, x[:, t]].t()
            alphas.append(alpha)
        sums = torch.stack(alphas, dim=1).logsumexp(dim=2)
        return sums.gather(1, (lengths - 1).unsqueeze(1)).squeeze(1)

    @torch.no_grad()
    def viterbi(self, x):
        start, transition, emission = self.tables()
        delta, back = start + emission[:, x[0]], []
        for symbol in x[1:]:
            best, at = (delta.unsqueeze(1) + transition).max(dim=0)
            delta = best + emission[:, symbol]
            back.append(at)
        path = [int(delta.argmax())]
        for at in reversed(back):
            path.append(int(at[path[-1]]))
        return path[::-1]


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def train(self, data):
        total = 0.0
        for x, lengths in data:
            loss = -(self.model(x, lengths) / lengths).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(data)


def sequences(count, longest, symbols):
    lengths = torch.randint(longest // 2, longest + 1, (count,))
    walk = torch.cumsum(torch.randint(-1, 2, (count, longest)), dim=1) % symbols
    return walk, lengths


if __name__ == "__main__":
    torch.manual_seed(0)
    data = [sequences(8, longest, 9) for longest in (14, 18, 16, 18, 14, 16)]
    model = place(HMM(6, 9))
    trainer = Trainer(model, 0.05)
    start()
    for epoch in range(scaled(250)):
        loss = trainer.train(data)
        if epoch % 5 == 0:
            print(epoch, repr(loss), model.viterbi(data[0][0][0]))
    finish(model)
