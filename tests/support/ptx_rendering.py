"""A module written as PTX again: scopes flat, registers called by their slots. What the reader says must be enough for
that.
"""

from smemsim.core.ptx import Address, Arguments, Immediate, Label, Pair, Register, Sink, Special, Symbol, Vector
from smemsim.core.spec.ptx import TYPE_BYTES


def offset_text(offset):
    return f"+{offset}" if offset else ""


def operand_text(operand):
    match operand:
        case Register(slot, _, _, negated, part):
            return f"{'!' if negated else ''}%s{slot}{'.' * bool(part)}{part}"
        case Immediate(value, "int"):
            return str(value)
        case Immediate(value, "f32"):
            return f"0f{value:08X}"
        case Immediate(value, _):
            return f"0d{value:016X}"
        case Special(name):
            return f"%{name}"
        case Label(name):
            return name
        case Symbol(name, offset):
            return f"{name}{offset_text(offset)}"
        case Sink():
            return "_"
        case Vector(items):
            return "{" + ", ".join(map(operand_text, items)) + "}"
        case Arguments(items):
            return "(" + ", ".join(map(operand_text, items)) + ")"
        case Pair(first, second):
            return f"{operand_text(first)}|{operand_text(second)}"
        case Address(base, offset, coordinates):
            more = "" if coordinates is None else f", {operand_text(Vector(coordinates))}"
            return f"[{operand_text(base)}{offset_text(offset)}{more}]"


def instruction_text(instruction):
    guard = f"@{operand_text(instruction.guard)} " if instruction.guard else ""
    return f"{guard}{instruction.name} {', '.join(map(operand_text, instruction.operands))};"


def typed(kind, name, size):
    """`.b32 x` or `.b32 x[3]`."""
    return f".{kind} {name}" if size == TYPE_BYTES[kind] else f".{kind} {name}[{size // TYPE_BYTES[kind] or ''}]"


def variable_text(variable, functions):
    head = f"{'.extern ' if variable.is_extern else ''}.{variable.space} .align {variable.align}"
    if variable.initial is None:
        return f"{head} {typed(variable.type, variable.name, variable.size)};"
    values = [str(byte) for byte in variable.initial]
    for offset, symbol, addend in variable.references:
        address = symbol if symbol in functions else f"generic({symbol})"
        values[offset : offset + 8] = [f"{0xFF << 8 * i:#x}({address}{offset_text(addend)})" for i in range(8)]
    return f"{head} .u8 {variable.name}[{variable.size}] = {{{', '.join(values)}}};"


def parameters_text(parameters):
    def one(p):
        if p.slot is not None:
            return f".reg .{p.type} %s{p.slot}"
        return f".param .align {p.align} {typed(p.type, p.name, p.size)}"

    return "(" + ", ".join(map(one, parameters)) + ")"


def head_text(function):
    results = parameters_text(function.results) + " " if function.results else ""
    directives = "".join(f"\n.{name} {', '.join(map(str, values))}" for name, values in function.directives.items())
    kind = ".visible .entry" if function.is_entry else ".func"
    return f"{kind} {results}{function.name} {parameters_text(function.parameters)}{directives}"


def function_text(function, functions):
    lines = [head_text(function), "{"]
    given = {p.slot for p in (*function.parameters, *function.results)}
    lines += [f".reg .{r.type} %s{slot};" for slot, r in enumerate(function.registers) if slot not in given]
    lines += [variable_text(v, functions) for v in function.variables]
    for name, prototype in function.prototypes.items():
        kinds = [
            ", ".join(f".param .align {p.align} {typed(p.type, '_', p.size)}" for p in some)
            for some in (prototype.results, prototype.parameters)
        ]
        lines.append(f"{name}: .callprototype ({kinds[0]}) _ ({kinds[1]});")
    lines += [f"{name}: .branchtargets {', '.join(targets)};" for name, targets in function.targets.items()]
    for i, instruction in enumerate(function.body):
        lines += [f"{name}:" for name, at in function.labels.items() if at == i]
        lines.append(instruction_text(instruction))
    lines += [f"{name}:" for name, at in function.labels.items() if at == len(function.body)]
    return "\n".join([*lines, "}"])


def module_text(module):
    lines = [f".version {module.version}", f".target {', '.join(module.target)}", f".address_size {module.address_size}"]
    lines += [head_text(f).replace(".visible", "") + ";" for f in module.functions.values() if not f.is_entry]
    lines += [variable_text(v, module.functions) for v in module.variables.values()]
    lines += [function_text(f, module.functions) for f in module.functions.values() if f.body is not None]
    return "\n".join(lines) + "\n"
