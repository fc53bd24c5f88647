"""A GRU encoder and a decoder with attention learn to reverse sequences; the teacher is forced at random."""

import random

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn import functional as F

SOS, EOS, WORDS = 0, 1, 24


class Encoder(nn.Module):
    def __init__(self, words, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.gru = nn.GRU(hidden, hidden)

    def forward(self, source):
        return self.gru(self.embedding(source).unsqueeze(1))


class Decoder(nn.Module):
    def __init__(self, words, hidden):
        super().__init__()
        self.embedding = nn.Embedding(words, hidden)
        self.combine = nn.Linear(2 * hidden, hidden)
        self.gru = nn.GRUCell(hidden, hidden)
        self.out = nn.Linear(hidden, words)

    def forward(self, token, hidden, outputs):
        embedded = self.embedding(token)
        weights = F.softmax(hidden @ outputs.squeeze(1).t(), dim=-1)
        context = weights @ outputs.squeeze(1)
        hidden = self.gru(F.relu(self.combine(torch.cat((embedded, context), dim=-1))), hidden)
        return F.log_softmax(self.out(hidden), dim=-1), hidden


def train_one(source, target, encoder, decoder, optimizers, criterion, ratio=0.5):
    for optimizer in optimizers:
        optimizer.zero_grad()
    outputs, hidden = encoder(source)
    token, hidden, loss = torch.tensor([SOS]), hidden[0], 0.0
    forced = random.random() < ratio
    for word in target:
        scores, hidden = decoder(token, hidden, outputs)
        loss = loss + criterion(scores, word.view(1))
        if forced:
            token = word.view(1)
        else:
            token = scores.argmax(1).detach()
            if token.item() == EOS:
                break
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item() / len(target)


@torch.no_grad()
def translate(source, encoder, decoder, longest=14):
    outputs, hidden = encoder(source)
    token, hidden, words = torch.tensor([SOS]), hidden[0], []
    for _ in range(longest):
        scores, hidden = decoder(token, hidden, outputs)
        token = scores.argmax(1)
        if token.item() == EOS:
            break
        words.append(token.item())
    return words


def pair():
    words = [random.randrange(2, WORDS) for _ in range(random.randint(3, 9))]
    return torch.tensor(words), torch.tensor([*reversed(words), EOS])


def main():
    torch.manual_seed(2)
    random.seed(2)
    encoder, decoder = Encoder(WORDS, 32), Decoder(WORDS, 32)
    step = place(train_one)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.05) for model in (encoder, decoder)]
    criterion, total = nn.NLLLoss(), 0.0
    start()
    for turn in range(1, scaled(650) + 1):
        total += step(*pair(), encoder, decoder, optimizers, criterion)
        if turn % 50 == 0:
            source, target = pair()
            print(turn, repr(total / 50), translate(source, encoder, decoder), target.tolist())
            total = 0.0
    finish(encoder, decoder)


if __name__ == "__main__":
    main()
