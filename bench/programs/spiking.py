"""A spiking net of snntorch: leaky neurons over time, a surrogate gradient, spikes counted."""

import snntorch as snn
import torch
from _common import finish, place, scaled, start
from snntorch import functional as SF
from snntorch import surrogate, utils
from torch import nn


class Net(nn.Module):
    def __init__(self, steps, beta=0.9):
        super().__init__()
        self.steps = steps
        spike_grad = surrogate.fast_sigmoid(slope=25)
        self.fc1, self.fc2 = nn.Linear(20, 32), nn.Linear(32, 4)
        self.lif1 = snn.Leaky(beta=beta, spike_grad=spike_grad)
        self.lif2 = snn.Leaky(beta=beta, spike_grad=spike_grad)

    def forward(self, x):
        mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
        spikes, membranes = [], []
        for _ in range(self.steps):
            spk1, mem1 = self.lif1(self.fc1(x), mem1)
            spk2, mem2 = self.lif2(self.fc2(spk1), mem2)
            spikes.append(spk2)
            membranes.append(mem2)
        return torch.stack(spikes), torch.stack(membranes)


def main():
    torch.manual_seed(28)
    labels = torch.randint(0, 4, (320,))
    data = torch.rand(320, 20) + 0.8 * torch.nn.functional.one_hot(labels, 20)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(data, labels), batch_size=16, shuffle=True, drop_last=True
    )
    net = place(Net(12))
    utils.reset(net)
    criterion = SF.ce_rate_loss()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, betas=(0.9, 0.999))
    start()
    for epoch in range(scaled(14)):
        for images, targets in loader:
            net.train()
            spikes, _ = net(images)
            loss = criterion(spikes, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, repr(loss.item()), repr(float(SF.accuracy_rate(spikes, targets))), int(spikes.sum()))
    finish(net)


if __name__ == "__main__":
    main()
