# old style: DataParallel, a global loop, prints every iteration
import torch
import torch.nn as nn
import torch.optim as optim

use_cuda = torch.cuda.is_available()

class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.fc1 = nn.Linear(8 * 13 * 13, 10)

    def forward(self, x):
        x = torch.relu(nn.functional.max_pool2d(self.conv1(x), 2))
        return nn.functional.log_softmax(self.fc1(x.view(x.size(0), -1)), dim=1)

train_x = torch.rand(6400, 1, 28, 28)
train_y = (train_x.mean(dim=(1, 2, 3)) * 1000).long() % 10
train_loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(train_x, train_y), batch_size=64, shuffle=True, num_workers=0)

net = Net()
if use_cuda:
    net = net.cuda()
net = nn.DataParallel(net)
optimizer = optim.SGD(net.parameters(), lr=0.01, momentum=0.5)
criterion = nn.NLLLoss()

for epoch in range(1, 100000):
    for batch_idx, (data, target) in enumerate(train_loader):
        if use_cuda:
            data, target = data.cuda(), target.cuda()
        optimizer.zero_grad()
        output = net(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        print('Train Epoch: {} [{}/{}]\tLoss: {:.6f}'.format(
            epoch, batch_idx * len(data), len(train_loader.dataset), loss.item()))
