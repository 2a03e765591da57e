"""Symbols of C++: names are mangled by the rules of the Itanium ABI, and read back."""

import itertools
import random

import pytest

from smemsim.core.ptx.demangle import demangled, pointed_types, readable, shorter_name

BUILTIN = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned",
    "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long", "f": "float", "d": "double", "Dn": "nullptr_t", "Dh": "half",
    "DF16_": "_Float16", "DF16b": "bfloat16", "n": "__int128", "e": "long double", "z": "...",
}  # fmt: skip
AROUND = {"P": "*", "R": "&", "O": "&&", "K": " const", "V": " volatile", "r": " restrict"}
STANDARD = {"Sa": "std::allocator", "Ss": "std::string", "So": "std::ostream", "Sb": "std::basic_string"}
NAMES = ("Tile", "gemm", "x", "Layout_8", "policy")


class Names:
    """Random names: a pair of the mangled text and the readable one, `level` of template arguments deep."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def component(self, level: int) -> tuple[str, str]:
        name = self.random.choice(NAMES)
        mangled, shown = f"{len(name)}{name}", name
        if self.random.random() < 0.4 - 0.08 * level:
            arguments = [self.argument(level + 1) for _ in range(self.random.randrange(4))]
            mangled += "I" + "".join(m for m, _ in arguments) + "E"
            every = [text for _, texts in arguments for text in texts]
            shown += f"<{', '.join(every) if level < 2 else '…' if every else ''}>"
        return mangled, shown

    def argument(self, level: int) -> tuple[str, list[str]]:
        kind = self.random.randrange(8)
        number = self.random.randrange(300)
        if kind == 0:
            return f"Li{number}E", [str(number)]
        if kind == 1:
            return f"Lin{number}E", [f"-{number}"]
        if kind == 2:
            return f"Lb{number & 1}E", [("false", "true")[number & 1]]
        if kind == 3:
            packed = [self.argument(level) for _ in range(self.random.randrange(3))]
            return f"J{''.join(m for m, _ in packed)}E", [text for _, texts in packed for text in texts]
        if kind == 4:
            name = self.random.choice(NAMES)
            return f"L_Z{len(name)}{name}vE", [name]
        mangled, shown = self.type(level)
        return mangled, [shown]

    def type(self, level: int) -> tuple[str, str]:
        kind = self.random.randrange(10)
        if kind == 9:  # what was named before, or a parameter of the template: it is not followed
            return self.random.choice(("S_", "S0_", "S1Z_", "T_", "T12_")), "…"
        if kind < 2:
            return self.random.choice(list(BUILTIN.items()))
        if kind < 4:
            letter, (mangled, shown) = self.random.choice(list(AROUND)), self.type(level)
            return letter + mangled, shown if shown == "…" else shown + AROUND[letter]
        if kind == 4:
            mangled, shown = self.type(level)
            return f"A{level + 3}_{mangled}", f"{shown}[{level + 3}]"
        if kind == 5:
            return f"F{self.type(level)[0]}{self.type(level)[0]}E", "function"
        if kind == 6:
            return self.random.choice(list(STANDARD.items()))
        return self.component(level) if kind == 7 else self.nested(level)

    def nested(self, level: int) -> tuple[str, str]:
        begin = self.random.choice((("", []), ("K", []), ("", ["St"]), ("", ["12_GLOBAL__N_1"])))
        components = [self.component(level) for _ in range(self.random.randrange(1, 4))]
        shown = [{"St": "std", "12_GLOBAL__N_1": "(anonymous)"}[one] for one in begin[1]] + [s for _, s in components]
        mangled = "".join([*begin[1], *(m for m, _ in components)])
        end = self.random.choice(("", "", "C1", "D2", "UlvE_", "UlifE3_"))
        last = components[-1][1].partition("<")[0]
        shown += {"": [], "C1": [last], "D2": [f"~{last}"]}.get(end, ["lambda"])
        return f"N{begin[0]}{mangled}{end}E", "::".join(shown)

    def function(self) -> tuple[str, str]:
        mangled, shown = self.component(0) if self.random.random() < 0.5 else self.nested(0)
        parameters = "".join(self.type(0)[0] for _ in range(self.random.randrange(3)))
        local = self.random.randrange(4)
        if local == 0:
            return f"Z{mangled}{parameters}E4smem", f"{shown}::smem"
        if local == 1:
            return f"Z{mangled}{parameters}Es", f"{shown}::a string"
        return mangled + parameters, shown


@pytest.mark.parametrize("seed", range(8))
def test_a_mangled_name_is_read_back(seed):
    names = Names(seed)
    for n in range(40):
        mangled, shown = names.function()
        suffix = f"_param_{n}" if n % 3 == 0 else ""
        assert demangled(f"_Z{mangled}{suffix}") == shown + suffix, mangled
        assert demangled(mangled) == mangled  # none of C++


def test_what_cannot_be_read_is_an_ellipsis_behind_what_can():
    assert demangled("_ZN4gemm3Foo") == "gemm::Foo::…"
    assert demangled("_ZN4gemm4TileI") == "gemm::Tile<…>"
    assert demangled("_ZN4gemm1") == "gemm::…"
    assert demangled("_ZQ") == "_ZQ"
    assert demangled("_Z9gemm") == "_Z9gemm"
    assert demangled("_Z1gI" + "P" * 58 + "iE") == "g<int" + "*" * 58 + ">"
    assert demangled("_Z1gI" + "P" * 59 + "iE") == "g<…>"
    assert demangled("_Z1g" + "I" * 8190) == "_Z1g" + "I" * 8190
    # a substitution stands for something that was named before: it is left out at the begin, and an ellipsis inside
    assert demangled("_ZNS_3FooE") == "Foo"
    assert demangled("_Z4gemmI3FooS_PS0_T_E") == "gemm<Foo, …, …, …>"


# as c++filt writes them, without results and parameters; an expression of a type is not read
@pytest.mark.parametrize(
    ("name", "shown"),
    {
        "_Z1fISt6vectorIiEEvv": "f<std::vector<int>>", "_Z1fISt3FooEvv": "f<std::Foo>", "_Z1fISs3FooEvv": "f<std::string, Foo>",
        "_ZL4gemmv": "gemm", "_ZN1aL4gemmEv": "a::gemm", "_Z1fIN2ns3BarESaIiEEvv": "f<ns::Bar, std::allocator<int>>",
        "_Z1fIDtfp_EEvv": "f<…>", "_Z1fIDTfp_EEvv": "f<…>", "_Z1fIZ1gvE1xEvv": "f<…>", "_Z0v": "_Z0v",
    }.items(),
)  # fmt: skip
def test_names_of_libraries_and_of_one_file(name, shown):
    assert demangled(name) == shown


def test_a_parameter_that_names_what_is_not_there_ends_the_list():
    assert pointed_types("_Z1fPKfS_S0_i") == ["f32", "", "f32", ""]
    assert [pointed_types(f"_Z1fPKfS{n}_i") for n in "12Z"] == [["f32"]] * 3
    assert [pointed_types(name) for name in ("_Z1fS_", "_Z1f", "_Z1fi", "f", "_ZN1a1fEPf")] == [[], [], [""], [], []]


ELEMENTS = {
    "c": "s8", "h": "u8", "s": "s16", "t": "u16", "i": "s32", "j": "u32", "l": "s64", "m": "u64", "x": "s64", "y": "u64", "f": "f32", "d": "f64", "a": "s8",
    "__half": "f16", "__nv_bfloat16": "bf16", "__nv_fp8_e4m3": "e4m3", "__nv_fp8_e5m2": "e5m2", "Params": "",
}  # fmt: skip


def compressed(types: list[tuple[str, ...]]) -> str:
    """Types as the ABI writes them, innermost first; each but a letter may be named again by its number."""
    seen: list[tuple[str, ...]] = []

    def of(kind: tuple[str, ...]) -> str:
        if kind in seen:
            n = seen.index(kind)
            digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
            return "S_" if n == 0 else f"S{digits[n - 1]}_"
        *inner, last = kind
        text = last + of(tuple(inner)) if inner else last if len(last) == 1 else f"{len(last)}{last}"
        if len(kind) > 1 or len(last) > 1:
            seen.append(kind)
        return text

    return "".join(map(of, types))


@pytest.mark.parametrize("seed", range(6))
def test_each_parameter_says_what_it_points_to(seed):
    drawn = random.Random(seed)
    for _ in range(20):
        types = []
        for _ in range(drawn.randrange(1, 7)):
            base = (drawn.choice(list(ELEMENTS)),)
            types.append(base + drawn.choice(((), ("P",), ("K", "P"), ("P",), ("K", "P"))))
        if drawn.random() < 0.3 and types[0][-1] == "P":
            types.append((*types[0], "P"))  # a pointer to pointers, of a type that has been named
        wanted = [ELEMENTS[kind[0]] if kind[1:] in (("P",), ("K", "P")) else "" for kind in types]
        name = "_Z4gemm" + compressed(types)
        assert pointed_types(name) == wanted, name
    assert pointed_types("_ZN2ns4gemmEPf") == pointed_types("gemm") == []


@pytest.mark.parametrize("most", [3, 8, 9, 80])
def test_a_long_name_keeps_both_ends(most):
    for length in range(1, 100):
        name = "".join(itertools.islice(itertools.cycle("abcdefghij"), length))
        short = shorter_name(f"_Z{length}{name}", most)
        if length <= most:
            assert short == name
        else:
            assert len(short) == most
            before, _, behind = short.partition("…")
            assert name.startswith(before)
            assert name.endswith(behind)
            assert 0 <= len(before) - len(behind) <= 1


def test_symbols_in_a_sentence_are_names():
    assert readable("in _Z4gemmILi3EEvPf, _ZN2ns3fooEv and saxpy") == "in gemm<3>, ns::foo and saxpy"
    assert readable("kernel_cutlass_reverse_kernel_tensorptrf32gmemo1281_0_param_2") == "reverse_kernel_param_2"
