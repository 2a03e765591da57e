"""Generators of random numbers: the card's numbers are the CPU's. The state of the card's generators is that of a card:
a seed and an offset.

Kernels with Philox take both from the state, and write the new offset back (`CUDAGeneratorImpl.cpp` of PyTorch: 16
bytes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smemsim.virtual.torch_cuda import is_cuda

__all__ = ["card_generator", "generator_class"]


STATE_BYTES = 16
STEP = 4  # an offset of Philox is a multiple of the numbers that one round gives
KEPT = 1024  # states of the CPU's generator, 5 kB each
ODD = 0x9E3779B97F4A7C15  # of a seed and an offset one number


class _State:
    """Seed and offset of a card's generator, whose numbers come from one of the CPU's."""

    def __init__(self, get: Callable[[], Any], put: Callable[[Any], Any], reseed: Callable[[int], Any], initial: Callable[[], int]) -> None:
        self._get, self._put, self._reseed, self._initial = get, put, reseed, initial
        self._seed, self._offset, self._begun = 0, 0, -1
        self._raw: Any = None
        self._known: dict[tuple[int, int], Any] = {}

    def read(self) -> Any:
        """16 bytes: what has been drawn since makes the offset more."""
        import torch

        raw = self._get()
        if self._raw is None or not torch.equal(raw, self._raw):
            begun = self._initial()
            is_fresh = torch.equal(raw, torch._C.Generator().manual_seed(begun).get_state())
            if begun != self._begun:
                self._seed, self._offset = begun, 0 if is_fresh else STEP
            else:
                self._offset = 0 if is_fresh and self._seed == begun else self._offset + STEP
            self._keep(raw)
        return torch.tensor([_signed(self._seed), _signed(self._offset)], dtype=torch.int64).view(torch.uint8)

    def write(self, state: Any) -> None:
        """The numbers go on as where this state was read; of another one, they begin somewhere that depends on it
        alone.
        """
        import torch

        if not isinstance(state, torch.Tensor) or state.dtype is not torch.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if state.numel() != STATE_BYTES:
            raise RuntimeError(f"RNG state is wrong size: {state.numel()} bytes, a card's generator has {STATE_BYTES}")
        seed, offset = (n % (1 << 64) for n in state.contiguous().view(torch.int64).tolist())
        raw = self._known.get((seed, offset))
        if raw is None:
            self._reseed(_signed((seed + ODD * offset) % (1 << 64)))
        else:
            self._put(raw)
        self._seed, self._offset = seed, offset
        self._keep(self._get())

    def _keep(self, raw: Any) -> None:
        self._raw, self._begun = raw, self._initial()
        self._known[self._seed, self._offset] = raw
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]


def _signed(n: int) -> int:
    return n - (1 << 64) if n >> 63 else n


def generator_class(real: Any) -> Any:
    """A `torch.Generator` for which the card's numbers are the CPU's."""
    import torch

    class Generator(real):  # type: ignore[misc]
        """Random numbers; those of the card are the CPU's. `stands_for`: another generator that they come from."""

        stands_for: Any = None

        def __new__(cls, device: Any = "cpu") -> Any:
            on_card = is_cuda(device)
            made = super().__new__(cls, "cpu" if on_card else device)
            made.place = torch.device("cuda", 0) if on_card else torch.device(device)
            made.card = None
            if on_card:
                made.draw_from(super(Generator, made))
            return made

        def draw_from(self, numbers: Any) -> None:
            """The card's numbers are those of this generator."""
            self.card = _State(numbers.get_state, numbers.set_state, numbers.manual_seed, numbers.initial_seed)

        @property
        def device(self) -> Any:
            """The device of the generator."""
            return self.place

        def get_state(self) -> Any:
            """The state of a card's generator: seed and offset."""
            return super().get_state() if self.card is None else self.card.read()

        def set_state(self, state: Any) -> Any:
            """Go on as where this state was got."""
            if self.card is None:
                super().set_state(state)
            else:
                self.card.write(state)
            return self

        def get_offset(self) -> int:
            """How far a card's generator is."""
            return int(self.get_state().view(torch.int64)[1])

        def set_offset(self, offset: int) -> None:
            """Go on as where it was so far."""
            state = self.get_state()
            state.view(torch.int64)[1] = offset
            self.set_state(state)

    return Generator


def card_generator() -> Any:
    """The card's own generator: its numbers are those of the CPU's own."""
    import torch

    numbers: Any = torch.default_generator

    class Default(torch.Generator):  # type: ignore[misc]
        """`torch.cuda.default_generators[0]`."""

        def manual_seed(self, seed: int) -> Any:
            """Begin anew."""
            numbers.manual_seed(seed)
            return self

        def seed(self) -> int:
            """Begin anew, at random."""
            return int(numbers.seed())

        def initial_seed(self) -> int:
            """The seed that it began with."""
            return int(numbers.initial_seed())

    made = Default("cuda")
    made.draw_from(numbers)
    made.stands_for = numbers
    return made
