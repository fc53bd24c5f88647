"""An LSTM classifies sequences of varying length, packed and padded as batches come."""

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Classifier(nn.Module):
    def __init__(self, words, size, classes):
        super().__init__()
        self.embedding = nn.Embedding(words, size, padding_idx=0)
        self.lstm = nn.LSTM(size, size, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(size, classes)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        out, _ = self.lstm(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        mask = (ids != 0).unsqueeze(-1)
        mean = (out * mask).sum(1) / lengths.unsqueeze(-1)
        return self.head(self.dropout(mean))


def make_data(count):
    data = []
    for _ in range(count):
        length = int(torch.randint(4, 24, (1,)))
        label = int(torch.randint(0, 3, (1,)))
        data.append((torch.randint(1, 20, (length,)) + 10 * label, label))
    return data


def batches(data, size):
    order = torch.randperm(len(data)).tolist()
    for i in range(0, len(order), size):
        rows = [data[j] for j in order[i : i + size]]
        ids = pad_sequence([ids for ids, _ in rows], batch_first=True)
        yield ids, torch.tensor([len(ids) for ids, _ in rows]), torch.tensor([label for _, label in rows])


def train(model, data, optimizer, criterion):
    model.train()
    total = 0.0
    for ids, lengths, labels in batches(data, 8):
        optimizer.zero_grad()
        loss = criterion(model(ids, lengths), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        total += loss.item() * len(labels)
    return total / len(data)


@torch.no_grad()
def evaluate(model, data):
    model.eval()
    right = 0
    for ids, lengths, labels in batches(data, 8):
        right += (model(ids, lengths).argmax(1) == labels).sum().item()
    return right / len(data)


def main():
    torch.manual_seed(5)
    train_data, test_data = make_data(240), make_data(80)
    model = place(Classifier(50, 24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    start()
    for epoch in range(scaled(20)):
        loss = train(model, train_data, optimizer, criterion)
        print(f"epoch {epoch}: loss {loss!r}, accuracy {evaluate(model, test_data)!r}")
    finish(model)


if __name__ == "__main__":
    main()
