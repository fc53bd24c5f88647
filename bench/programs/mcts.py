"""Tic-tac-toe by self-play: Monte Carlo tree search with a net for policies and values, trained on its own games."""

import math
import random

import torch
from _common import finish, place, scaled, start
from torch import nn
from torch.nn import functional as F

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


def winner(board):
    for a, b, c in LINES:
        if board[a] != 0 and board[a] == board[b] == board[c]:
            return board[a]
    return 0 if 0 in board else 2  # 2: a draw


class PolicyValueNet(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(18, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.policy, self.value = nn.Linear(hidden, 9), nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return self.policy(h), torch.tanh(self.value(h)).squeeze(-1)

    @torch.no_grad()
    def evaluate(self, board, player):
        logits, value = self(encode(board, player).unsqueeze(0))
        legal = [i for i in range(9) if board[i] == 0]
        return dict(zip(legal, F.softmax(logits[0, legal], dim=0).tolist(), strict=True)), value.item()


def encode(board, player):
    cells = torch.tensor(board)
    return torch.cat(((cells == player).float(), (cells == -player).float()))


class Node:
    def __init__(self, prior):
        self.prior, self.visits, self.total, self.children = prior, 0, 0.0, {}

    def best(self, c=1.4):
        root = math.sqrt(self.visits)

        def score(item):
            child = item[1]
            mean = -child.total / child.visits if child.visits else 0.0
            return mean + c * child.prior * root / (1 + child.visits)

        return max(self.children.items(), key=score)


def search(net, board, player, simulations):
    root = Node(1.0)
    for _ in range(simulations):
        node, cells, mover, path = root, list(board), player, [root]
        while node.children:
            move, node = node.best()
            cells[move] = mover
            mover = -mover
            path.append(node)
        won = winner(cells)
        if won == 0:
            priors, value = net.evaluate(cells, mover)
            node.children = {move: Node(prior) for move, prior in priors.items()}
        else:
            value = 0.0 if won == 2 else (1.0 if won == mover else -1.0)
        for each in reversed(path):
            each.visits += 1
            each.total += value
            value = -value
    counts = torch.zeros(9)
    for move, child in root.children.items():
        counts[move] = child.visits
    return counts / counts.sum()


def self_play(net, simulations=25):
    board, player, moves = [0] * 9, 1, []
    while winner(board) == 0:
        policy = search(net, board, player, simulations)
        moves.append((encode(board, player), policy, player))
        board[random.choices(range(9), policy.tolist())[0]] = player
        player = -player
    won = winner(board)
    return [(x, policy, 0.0 if won == 2 else float(won * who)) for x, policy, who in moves]


def main():
    torch.manual_seed(9)
    random.seed(9)
    net, memory = place(PolicyValueNet()), []
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    start()
    for game in range(scaled(170)):
        memory = (memory + self_play(net))[-300:]
        for _ in range(4):
            x, policy, value = zip(*random.sample(memory, min(16, len(memory))), strict=True)
            logits, predicted = net(torch.stack(x))
            loss = F.mse_loss(predicted, torch.tensor(value)) + F.cross_entropy(logits, torch.stack(policy))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if game % 5 == 0:
            print(game, len(memory), repr(loss.item()))
    finish(net)


if __name__ == "__main__":
    main()
