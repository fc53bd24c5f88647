"""A character RNN: truncated backpropagation through a text, then sampling from it at several temperatures."""

import argparse

import torch
from _common import finish, place, scaled, start
from torch import nn

WORDS = "the cat sat on the mat and the dog ran to the sea while a bird sang in the old oak tree"
TEXT = " ".join(word for turn in range(60) for word in WORDS.split()[turn % 7 :: 1 + turn % 3])
CHARS = sorted(set(TEXT))


class CharRNN(nn.Module):
    def __init__(self, chars, hidden, layers):
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.encoder = nn.Embedding(chars, hidden)
        self.rnn = nn.GRU(hidden, hidden, layers)
        self.decoder = nn.Linear(hidden, chars)

    def forward(self, chars, hidden):
        out, hidden = self.rnn(self.encoder(chars.view(1, -1)), hidden)
        return self.decoder(out.view(chars.numel(), -1)), hidden

    def init_hidden(self, batch):
        return torch.zeros(self.layers, batch, self.hidden)


def char_tensor(text):
    return torch.tensor([CHARS.index(char) for char in text])


def random_chunk(length):
    at = int(torch.randint(0, len(TEXT) - length - 1, (1,)))
    chunk = char_tensor(TEXT[at : at + length + 1])
    return chunk[:-1], chunk[1:]


def train(model, optimizer, criterion, chunk):
    inputs, targets = random_chunk(chunk)
    hidden = model.init_hidden(1)
    optimizer.zero_grad()
    loss = 0
    for at in range(chunk):
        output, hidden = model(inputs[at], hidden)
        loss = loss + criterion(output, targets[at].view(1))
    loss.backward()
    optimizer.step()
    return loss.item() / chunk


def generate(model, prime, length, temperature):
    hidden, text = model.init_hidden(1), prime
    primed = char_tensor(prime)
    for char in primed[:-1]:
        _, hidden = model(char, hidden)
    char = primed[-1]
    for _ in range(length):
        output, hidden = model(char, hidden)
        weights = output.data.view(-1).div(temperature).exp()
        char = torch.multinomial(weights, 1)[0]
        text += CHARS[char]
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--chunk", type=int, default=25)
    parser.add_argument("--epochs", type=int, default=scaled(350))
    args = parser.parse_args()
    torch.manual_seed(4)
    model = place(CharRNN(len(CHARS), args.hidden, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()
    start()
    for epoch in range(args.epochs):
        loss = train(model, optimizer, criterion, args.chunk)
        if epoch % 20 == 0:
            print(epoch, repr(loss), generate(model, "the ", 60, 0.5 + 0.2 * (epoch % 3)))
    finish(model)


if __name__ == "__main__":
    main()
