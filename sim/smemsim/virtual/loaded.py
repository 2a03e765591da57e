"""The code that a program has loaded to a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from smemsim.base.errors import InputError, SmemsimError
from smemsim.virtual import fatbin
from smemsim.virtual.code import Device, Module
from smemsim.virtual.errors import INVALID_IMAGE, INVALID_PTX, NO_BINARY, CudaError

__all__ = ["LoadedCode"]


class LoadedCode:
    """The `modules` of a device.

    The faults of the code that was loaded last are in `log`. Reasons why code of the program is not simulated are in
    `refused`. The function `refuses` is called with each reason.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.modules: list[Module] = []
        self.log = ""
        self._has_passed_over = False
        self.refused: list[str] = []
        self.references: set[str] = set()  # products of cuBLAS whose missing simulation is reported
        self.refuses: Callable[[str], None] = lambda why: None

    def load(self, code: bytes | str, managed: Iterable[str] = ()) -> Module:
        """Load PTX text, a fat binary or a cubin that holds its PTX. CudaError 209 where nothing runs here, 218 for
        PTX that is none.
        """
        self.log = ""
        try:
            found = fatbin.images(code.encode() if isinstance(code, str) else code)
            image, why = fatbin.chosen(found, self.device.card.arch)
            self.note_passed_over(found)
        except fatbin.NoCode as e:
            self.refuse(f"no code for {self.device.card.arch}: {e}")
            raise CudaError(INVALID_PTX if _is_text(code) else NO_BINARY, str(e)) from None
        except (InputError, ValueError, IndexError) as e:
            self.refuse(str(e))
            raise CudaError(INVALID_IMAGE, str(e)) from None
        try:
            module = Module(self.device, image.ptx, why, managed, cubin=image.cubin)
            if image.origin == "PTX":  # what comes with machine code has been through ptxas
                module.check()
        except SmemsimError as e:
            if isinstance(e, CudaError):
                raise
            self.log = f"ptxas fatal   : {e}"
            self.refuse(f"this PTX cannot be read: {e}")
            raise CudaError(INVALID_PTX, str(e)) from None
        self.modules.append(module)
        return module

    def refuse(self, why: str) -> None:
        """Record that code of the program cannot run here, so that its kernels are not simulated. The exit code of
        `smemsim exec` shows it.
        """
        self.device.tell(why)
        self.note_refused(why)

    def note_refused(self, why: str) -> None:
        """Keep for the end that something was not simulated, without a line of its own."""
        self.refused.append(why)
        self.refuses(why)

    def note_passed_over(self, found: Sequence[fatbin.Image]) -> None:
        """Print once that a card would run other code of the program than smemsim."""
        if not self._has_passed_over and (told := fatbin.passed_over(found, self.device.card.arch)):
            self._has_passed_over = True
            self.device.tell(told)

    def unload(self, module: Module) -> None:
        """A module's variables are given back."""
        if module in self.modules:
            self.modules.remove(module)
            self.device.machine.forget(module.loaded)


def _is_text(code: bytes | str) -> bool:
    return isinstance(code, str) or code.lstrip()[:1] in (b".", b"/")
