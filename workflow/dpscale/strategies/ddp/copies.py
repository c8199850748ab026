"""The average of gradients without NCCL's kernels: copy engines carry gradients between the GPUs of one machine.

An allreduce holds multiprocessors that the backward pass of a small batch wants too, and before it one kernel per
weight fills a bucket. Here every GPU copies gradients from where they lie into the memory of the GPU that averages
them, and gets averages back, by torch's symmetric memory. As in a ring, it sends 2 (N-1)/N of the gradients' bytes.
"""

from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric
from torch import Tensor, nn

from dpscale.errors import StrategyError
from dpscale.strategies.units import weights_by_unit

# A copy takes some microseconds, however small it is. Weights below this size go by one kernel for all of them.
SMALL_BYTES = 200_000


class CopiedGradients(nn.Module):
    """A network on one GPU whose gradients are the averages over all ranks when its backward pass has ended.

    The gradients of a unit are a message, which leaves as soon as they are there. Every weight needs a gradient in
    every step, and has none when it begins (zero_grad sets it to None); buffers are not sent. Raises StrategyError
    where that cannot be.
    """

    def __init__(self, network: nn.Module, device: torch.device):
        super().__init__()
        self.network = network
        for tensor in network.state_dict().values():
            dist.broadcast(tensor, src=0)
        units = weights_by_unit(network)
        weights = [weight for unit in units for weight in unit]
        if len({weight.dtype for weight in weights}) != 1:
            raise StrategyError("ddp.reducer: copies needs weights of one type: use torch's reducer")
        self._memory = Memory(sum(weight.numel() for weight in weights), weights[0].dtype, device)
        ends = accumulate((sum(weight.numel() for weight in unit) for unit in units), initial=0)
        self._messages = [
            Message(number, unit, self._memory, start)
            for number, (unit, start) in enumerate(zip(units, ends, strict=False))
        ]
        self._weights, self._arrived = len(weights), 0
        for message in self._messages:
            for weight in message.weights:
                weight.register_post_accumulate_grad_hook(lambda _, message=message: self._has_gradient(message))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        if self._arrived:
            raise StrategyError(
                "ddp.reducer: weights had no gradient in a step, and copies needs one for each: use torch's reducer"
            )
        return self.network(*inputs, **named)

    def _has_gradient(self, message: "Message") -> None:
        if not self._arrived:
            self._memory.wait_for_all_ranks()
        self._arrived += 1
        message.arrived += 1
        if message.arrived == len(message.weights):
            message.exchange()
            message.arrived = 0
        if self._arrived == self._weights:
            self._memory.join()
            for arrived in self._messages:
                arrived.put_in_place()
            self._arrived = 0


class Memory:
    """On every GPU: the averages of all gradients, and an inbox with a row of the same length for every sender.

    Other ranks write into it, and announce that by signals on channels. Work is on three streams, so that neither the
    backward pass nor another message waits for it.
    """

    def __init__(self, elements: int, dtype: torch.dtype, device: torch.device):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.peers = [rank for rank in range(self.ranks) if rank != self.rank]
        shape = (1 + self.ranks, elements)
        try:
            memory = symmetric.empty(*shape, dtype=dtype, device=device)
            self._handle = symmetric.rendezvous(memory, dist.distributed_c10d._get_default_group())
        except RuntimeError as error:
            raise StrategyError(f"ddp.reducer: copies needs GPUs that reach each other's memory: {error}") from error
        rows = [self._handle.get_buffer(rank, shape, dtype) for rank in range(self.ranks)]
        self.averages = [row[0] for row in rows]
        self.inbox = [row[1:] for row in rows]
        self.sending, self.averaging, self.arriving = (torch.cuda.Stream(device) for _ in range(3))

    def wait_for_all_ranks(self) -> None:
        """Wait until all ranks are in their next step: they have read what was sent to them, and updated weights."""
        self.sending.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.sending):
            self._handle.barrier(channel=0)

    def announce(self, channel: int) -> None:
        for rank in self.peers:
            self._handle.put_signal(rank, channel)

    def wait_for_peers(self, channel: int) -> None:
        for rank in self.peers:
            self._handle.wait_signal(rank, channel)

    def join(self) -> None:
        """Let the current stream wait for all that is sent and arrives."""
        for stream in (self.sending, self.averaging, self.arriving):
            torch.cuda.current_stream().wait_stream(stream)


class Message:
    """Weights whose gradients are sent together; their place in every row begins at `start`.

    A large gradient is cut into a share for every rank, which averages it and sends the average to all others. Small
    ones are sent whole to everybody, lie side by side, and are averaged by one kernel.
    """

    def __init__(self, number: int, weights: list[nn.Parameter], memory: Memory, start: int):
        self.weights = sorted(weights, key=_is_large)
        self.arrived = 0
        self._memory = memory
        self._sent, self._averaged = 2 * number + 1, 2 * number + 2
        places = [*accumulate((weight.numel() for weight in self.weights), initial=start)]
        self._place = dict(zip(self.weights, places[:-1], strict=True))
        self._small = [weight for weight in weights if not _is_large(weight)]
        self._large = [weight for weight in weights if _is_large(weight)]
        self._small_place = slice(start, places[len(self._small)])

    def exchange(self) -> None:
        """Send gradients, average what comes, and send that: each on a stream of its own."""
        memory, ready = self._memory, torch.cuda.current_stream().record_event()
        for stream, work in (
            (memory.sending, self.send),
            (memory.averaging, self.average),
            (memory.arriving, self.arrive),
        ):
            stream.wait_event(ready)
            with torch.cuda.stream(stream):
                work()

    def send(self) -> None:
        """Copy gradients into the others' inboxes."""
        memory = self._memory
        for to in memory.peers:
            inbox = memory.inbox[to][memory.rank]
            for weight in self._large:
                self._share(inbox, weight, to).copy_(self._gradient_share(weight, to), non_blocking=True)
            self._copy_small(inbox)
        memory.announce(self._sent)

    def average(self) -> None:
        """Average small gradients and this rank's shares, and send the averages of the shares to the others."""
        memory = self._memory
        averages, inbox = memory.averages[memory.rank], memory.inbox[memory.rank]
        self._copy_small(inbox[memory.rank])
        memory.wait_for_peers(self._sent)
        if self._small:
            torch.mean(inbox[:, self._small_place], 0, out=averages[self._small_place])
        for weight in self._large:
            mean, so_far = self._share(averages, weight, memory.rank), self._gradient_share(weight, memory.rank)
            for count, peer in enumerate(memory.peers, start=2):
                torch.lerp(so_far, self._share(inbox[peer], weight, memory.rank), 1 / count, out=mean)
                so_far = mean
            for to in memory.peers:
                self._share(memory.averages[to], weight, memory.rank).copy_(mean, non_blocking=True)
        if self._large:
            memory.announce(self._averaged)

    def arrive(self) -> None:
        if self._large:
            self._memory.wait_for_peers(self._averaged)

    def put_in_place(self) -> None:
        """Make the averages the weights' gradients."""
        for weight in self.weights:
            weight.grad = self._place_in(self._memory.averages[self._memory.rank], weight)

    def _copy_small(self, row: Tensor) -> None:
        if self._small:
            places = [self._place_in(row, weight) for weight in self._small]
            torch._foreach_copy_(places, [_gradient(weight) for weight in self._small])

    def _place_in(self, row: Tensor, weight: nn.Parameter) -> Tensor:
        """Return the place of `weight` in a row, laid out as the weight is."""
        return row[self._place[weight] :].as_strided(weight.size(), weight.stride())

    def _share(self, row: Tensor, weight: nn.Parameter, rank: int) -> Tensor:
        return self._place_in(row, weight).as_strided((weight.numel(),), (1,))[self._cut(weight, rank)]

    def _gradient_share(self, weight: nn.Parameter, rank: int) -> Tensor:
        """Return the share of this rank's gradient that `rank` averages."""
        return _gradient(weight).as_strided((weight.numel(),), (1,))[self._cut(weight, rank)]

    def _cut(self, weight: nn.Parameter, rank: int) -> slice:
        size, ranks = weight.numel(), self._memory.ranks
        return slice(size * rank // ranks, size * (rank + 1) // ranks)


def _gradient(weight: nn.Parameter) -> Tensor:
    assert weight.grad is not None
    return weight.grad


def _is_large(weight: Tensor) -> bool:
    return weight.nbytes >= SMALL_BYTES
