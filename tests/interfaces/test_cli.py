"""The command line as a user meets it: what it prints, where, and the exit code. Snapshots are for text that people
see.
"""

import csv
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from click.testing import CliRunner

from messages import one_line
from places import ROOT
from smemsim.cli import main

GOLDEN = ROOT / "golden"
# A bf16 tensor of 64 x 128 in tiles of 64 x 64 with 128B; an im2col map of 3 x 3 taps.
MAP = "00000000007f00001065000008000000" + 32 * "0" + "3f0000007f000000" + 30 * "0" + "3f3f" + 14 * "0" + "00200000000000000004" + 108 * "0"
OPERAND = "--dtype bf16 --major K --rows 16 --k 16"


def smemsim(command, **more):
    return CliRunner().invoke(main, command.split(), prog_name="smemsim", **more)


GOOD = [
    "decode 0x4000404000010040 --arch sm_100a",
    "decode 0x4000004000010042 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16",
    "decode 0x6000000800000003",
    "decode -4611684918915694528 --arch sm_90a",
    f"map 0x4000004000010040 --arch sm_90a {OPERAND}",
    "map 0x8000402000000040 --arch sm_100a --dtype bf16 --major MN --rows 64 --k 16 --lines 4",
    "map 0x2000402000000040 --arch sm_100a --dtype tf32 --major MN --rows 32 --k 8 --svg",
    "dot --a-type bf16 -a 3f80,3380*15 -b 3f80*16 -c 3f000000",
    "dot --a-type e4m3 --b-type e5m2 --values -a 448,2^-9*3,-0 -b 57344,1*4 -c -1e9",
    "dot --kind mxf4nvf4 --a-type e2m1 -a 2*64 -b 7*64 --scale-a 38*4 --scale-b 40,38*3",
    "dot --a-type s8 --b-type u8 --d-type s32 --values -a 127*32 -b 255*32 -c 2147483647 --satfinite",
    "dot --a-type f16 --d-type f16 --values -a inf,-inf -b 1,1",
]


@pytest.mark.parametrize("command", GOOD)
def test_what_people_see(command, snapshot):
    result = smemsim(command)
    assert result.exit_code in (0, 1), result.output
    assert result.stderr == ""
    assert result.stdout
    assert result.stdout == snapshot


BAD = {
    "decode zz --arch sm_90a": (2, "not a 64-bit word"),
    "decode 0x10000000000000000 --arch sm_90a": (2, "does not fit 64 bits"),
    "decode 1 --arch sm_80": (2, "sm_80"),
    "decode 1 --arch sm_90": (2, "did you mean 'sm_90a'?"),
    "decode 1 --arch sm_90a --dtype bf17": (2, "not an element type"),
    "decode 1 --arch sm_90a --major X": (2, "needs 'K' (K contiguous) or 'MN'"),
    "decode 1 --arch sm_90a --dtype bf16 --major K --rows -1 --k 16": (2, "a whole number from 0 on"),
    f"map 0x6000000000000000 --arch sm_100a {OPERAND}": (3, "not modelled"),
    "map 1 --arch sm_90a --dtype bf16 --major K --rows 1000000000 --k 1000000000": (2, "an instruction reads at most"),
    f"map 1 --arch sm_90a {OPERAND} --json --svg": (2, "exclude each other"),
    f"map 1 --arch sm_90a {OPERAND} --lines 0": (2, "needs at least 1"),
    "replay no/such/folder": (2, "no such folder"),
    "replay golden/sm_100a": (2, "no trace in it"),
    "replay golden --case 1": (2, "name one trace"),
    "replay golden/sm_90a/tma_wgmma --case 99999999": (2, "has cases 0 to"),
    "nonsense": (2, "nonsense: no such command; there are cache, campaign"),
    "decode pyproject.toml": (
        2,
        "is no tensor map: needs 128 bytes, a dump of them (xxd, od -t x1, hexdump -C), or an encode call. A descriptor is given as a number",
    ),
    "exec --arch B200 -- true": (2, "--arch B200: is the name of a card; write --card 'B200' or --arch sm_100a"),
    "solve": (2, "no input: give one of: SCENARIO descriptors for an operand of a scenario DUMP OPERAND"),
    "decode nothere": (2, "'nothere': no such file, and not a 64-bit word; write a word as 0x"),
    "exec --arch sm_90a -- .": (2, ".: cannot be started: it is a folder; name the program in it"),
    "exec --arch sm_99 -- true": (2, "(sm_90a, sm_100a, sm_103a, sm_110a, sm_120a, sm_121a, sm_89, sm_86, sm_80)\n"),  # no card is near
    "show patterns --html /proc/x": (2, "--html /proc/x: cannot write there"),
    "decode 1 --arhc sm_90a": (2, "--arhc: no such option; did you mean '--arch'?"),
    "check --expect D": (2, "--expect: no such option; --expect is an option of smemsim run; smemsim check --help"),
    "check --htm x": (2, "--htm: no such option; --html is an option of smemsim show; smemsim check --help"),
    "run k.ptx --kernel k": (2, "--kernel: no such option; did you mean '--entry'?"),
    "run k.ptx --card B200": (
        2,
        "--card: no such option; --card is an option of smemsim exec; smemsim run chooses the card by --arch, as --arch sm_100a; smemsim run --help",
    ),
    "plan -5x64 --dtype bf16": (2, "a size has no sign, as in smemsim plan 128x64"),
    "plan 64x64 --dtype": (2, "--dtype: needs a value; smemsim plan --help lists the options"),
    "plan 64x64 --all=3 --dtype bf16": (2, "--all: takes no value"),
    "plan 64x64 --dtype bf16 --dtype f16": (2, "--dtype: given 2 times; give it once"),
    "run k.ptx --workers 0": (2, "--workers 0: needs a whole number from 1 on"),
    "run k.ptx --limit 99999999999999999999": (2, "--limit 99999999999999999999: needs a whole number from 1 on, below 2^63"),
    "exec --limit-seconds nan -- true": (2, "--limit-seconds nan: needs a number above 0"),
    "exec --on-finding rais -- true": (2, "--on-finding rais: needs one of warn, raise, collect; did you mean 'raise'?"),
    "dot --a-type bf17 -a 1 -b 1": (2, "a_type = 'bf17': not an element type"),
    "dot --a-type bf16 -a zz -b 1": (2, "-a: 'zz' is not a hexadecimal word"),
    "dot --a-type bf16 --values -a 1 -b one": (2, "-b: 'one' is not a number"),
    "dot --a-type bf16 -a 3f80*17 -b 1": (2, "a has K = 17"),
    "dot --a-type bf16 -a 3f80*999999999 -b 1": (2, "more than 256 elements"),
    "dot --a-type bf16 -a 1 -b 13f80": (2, "b has 0x13f80: bf16 has 16 bits"),
    "dot --a-type bf16 -a , -b 1": (2, "-a: no words"),
    "dot --a-type e4m3 --kind f16 -a 1 -b 1": (2, "kind f16 does not multiply these types, only f16/bf16 x f16/bf16 to f32"),
    "dot --a-type e4m3 --kind mxf8f6f4 -a 1 -b 1": (2, "mxf8f6f4 needs both"),
    "dot --a-type bf16 -a 1 -b 1 --scale-a 7f": (2, "wgmma has no scale factors"),
    "dot --a-type bf16 -a 1 -b 1 --satfinite": (2, "only s32 results of 8-bit integers clamp"),
    "dot --a-type bf16 -a 1 -b 1 --arch sm_100a": (2, "on sm_100a"),
    "decode golden/": (2, "is a folder"),
    "decode no_such.bin": (2, "no such file"),
    "decode /dev/null": (2, "is a device"),
    f"decode {MAP} --dtype bf16 --tile-bytes 4": (2, "--dtype, --tile-bytes: of a descriptor's operand"),
    f"map {MAP} --at 64,,0": (2, "needs whole numbers"),
    f"map {MAP} --at 64 0": (2, "one argument too many"),
    f"map {MAP} --offsets=-1,0": (2, "unsigned"),
}


@pytest.mark.parametrize("command", BAD)
def test_bad_input_is_a_sentence_on_stderr(command, monkeypatch):
    monkeypatch.chdir(GOLDEN.parent)
    code, sentence = BAD[command]
    result = smemsim(command)
    assert (result.exit_code, result.stdout) == (code, "")
    assert sentence.strip() in one_line(result.stderr)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("package", ["llvmlite", "lz4"])
def test_exec_names_a_package_that_this_python_lacks_before_the_program_starts(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    result = smemsim("exec --arch sm_90a -- echo started")
    assert result.exit_code == 2
    assert f"has no package {package}, which smemsim needs: pip install {package}" in one_line(result.output)
    assert "started" not in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(("words", "said"), [(["run", ""], "KERNEL: is empty"), (["run", "k.ptx", "--launch", ""], "--launch: is empty"),
                                             (["check", ""], "is empty: name a file or a folder"), (["decode", ""], "the word is empty")])  # fmt: skip
def test_what_a_shell_leaves_empty_is_not_the_current_folder(words, said):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert said in result.output


def test_decode_exits_with_1_when_something_is_wrong():
    bad = smemsim("decode 0x4000000800010040 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16")
    assert bad.exit_code == 1
    assert "D307" in bad.stdout


def test_decode_json_has_the_fields_and_the_findings():
    described = json.loads(smemsim("decode 0x4000004000010040 --arch sm_100a --json").stdout)
    assert (described["start_address"], described["stride_byte_offset"], described["swizzle"]) == (1024, 1024, "128B")
    assert [f["code"] for f in described["findings"]] == ["D305"]
    assert described["grade"] == "witnessed"  # the weakest rule in force; nothing about Blackwell is measured
    assert isinstance(json.loads(smemsim("decode 1 --json").stdout), list)


def a_map():
    from smemsim import TensorMap

    arguments = {
        "global_address": 0x7F0000000000,
        "global_dim": (64, 128),
        "global_strides": (128,),
        "box_dim": (64, 64),
        "swizzle": "128B",
    }
    return TensorMap.tiled(data_type="bf16", **arguments)


def test_a_tensor_map_is_decoded_in_every_form_a_debugger_prints(tmp_path, snapshot):
    raw = bytes(a_map())
    words = [int.from_bytes(raw[i : i + 4], "little") for i in range(0, 128, 4)]
    doubles = [int.from_bytes(raw[i : i + 8], "little") for i in range(0, 128, 8)]
    (tmp_path / "map.bin").write_bytes(raw)
    (tmp_path / "map.txt").write_text(raw.hex(" "))
    forms = [raw.hex(), raw.hex(" "), " ".join(f"0x{w:08x}" for w in words), ", ".join(f"{w:#018x}" for w in doubles)]
    forms += [str(tmp_path / "map.bin"), str(tmp_path / "map.txt")]
    shown = {smemsim(f"decode {form}").stdout for form in forms}
    assert len(shown) == 1
    assert shown.pop() == snapshot
    described = json.loads(smemsim(f"decode --json {raw.hex()}").stdout)
    assert described["arguments"]["box_dim"] == [64, 64]
    assert bytes.fromhex(described["bytes"]) == raw


def test_bits_that_no_encoder_writes_are_named():
    raw = bytearray(bytes(a_map()))
    raw[70] = 0x80  # word 17, which is always 0
    result = smemsim(f"decode {raw.hex()}")
    assert result.exit_code == 0
    assert "unknown bits: word 17" in result.stdout


def test_a_file_that_holds_no_map_is_bad_input(tmp_path):
    (tmp_path / "short.bin").write_bytes(bytes(127))
    result = smemsim(f"decode {tmp_path / 'short.bin'}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "(127 bytes) is no tensor map" in one_line(result.stderr)


def test_bits_that_have_no_effect_are_told_from_those_that_nobody_knows():
    raw = bytearray(bytes(a_map()))
    raw[64:68] = bytes(4)
    raw[3 * 4 + 64] = 1
    text = " ".join(smemsim(f"decode {raw.hex()}").stdout.split())
    assert "derived bits: word 16, bits 31:0 (box_bytes): 0x0, the encoder writes 0x2000; no effect on Hopper (measured)" in text
    assert (
        "unknown bits: word 19, bits 31:0 (r19): 0x1, the driver writes 0; no effect on Hopper (measured), nor on Blackwell (compiled)"
        in text
    )


@pytest.mark.parametrize("text", ["0x4000404000010040", MAP, "00 " * 128])
def test_standard_input_is_read(text):
    piped, given = smemsim("decode - --arch sm_100a", input=text), smemsim(f"decode {text} --arch sm_100a")
    assert (piped.exit_code, piped.stdout) == (given.exit_code, given.stdout)
    assert piped.stdout


@pytest.mark.parametrize("command", ["decode", "map"])
def test_the_examples_of_the_help_run_when_they_are_pasted(command, tmp_path, monkeypatch):
    (tmp_path / "tensor_map.bin").write_bytes(bytes(a_map()))
    monkeypatch.chdir(tmp_path)
    text = smemsim(f"{command} --help").stdout
    examples = text[text.index("\n  smemsim ") : text.index("Options:")].replace("\n    ", " ").strip().splitlines()
    assert len(examples) >= 4
    for line in examples:
        piped, _, words = line.rpartition("smemsim ")
        arguments = shlex.split(words.partition(" > ")[0])
        result = CliRunner().invoke(main, arguments, input=dump_as_xxd(bytes(a_map())) if piped else None)
        assert result.exit_code == 0, result.output


def dump_as_xxd(raw):
    return "".join(f"{i:08x}: {raw[i : i + 16].hex(' ', 2)}  {'.' * 16}\n" for i in range(0, 128, 16))


@pytest.mark.parametrize("command", main.list_commands(None))
def test_each_help_has_an_example_and_no_control_characters(command):
    text = smemsim(f"{command} --help").stdout
    assert re.search(rf"^  smemsim {command}\b", text, re.MULTILINE)
    assert all(c.isprintable() or c == "\n" for c in text)


def test_the_help_names_every_code_of_a_finding():
    from smemsim.core.spec.findings import CODES

    text = smemsim("decode --help").stdout
    assert all(f"  {number}  {code.severity}" in text for number, code in CODES.items())


def test_the_forms_of_map_agree():
    command = f"map 0x4000004000010040 --arch sm_90a {OPERAND}"
    address = json.loads(smemsim(f"{command} --json").stdout)["address"]
    rows = list(csv.DictReader(io.StringIO(smemsim(f"{command} --csv").stdout)))
    assert len(rows) == 256
    assert all(address[int(r["row"])][int(r["k"])] == int(r["address"]) for r in rows)
    assert all(int(r["line"]) + 16 * int(r["chunk"]) + int(r["byte"]) == int(r["address"]) for r in rows)
    svg = ET.fromstring(smemsim(f"{command} --svg").stdout)
    titles = {t.text for t in svg.iter("{http://www.w3.org/2000/svg}title")}
    at = address[1][0]
    assert f"{at:#x}: chunk {at % 128 // 16} of line {at // 128 * 128:#x}, banks 4 to 7; row 1, k 0" in titles


def test_replay_says_where_a_difference_lies(tmp_path):
    from smemsim.evidence import load_suite, write_suite

    suite = load_suite(GOLDEN / "sm_90a" / "wgmma_reserved_bits")
    arrays = dict(suite.arrays)
    arrays["address"] = arrays["address"].copy()
    at = int(arrays["address_start"][3]) + 5
    arrays["address"][at] ^= 16
    kept = {key: suite.manifest[key] for key in ("suite", "kind", "arch", "title", "device", "source", "cases")}
    write_suite(tmp_path / "changed", **kept, arrays=arrays)
    result = smemsim(f"replay {tmp_path}")
    assert result.exit_code == 1
    assert "case 3:" in result.stdout
    assert "1 of" in result.stdout
    assert "rule in force: operand." in result.stdout
    reproduce = next(line for line in result.stdout.splitlines() if "reproduce:" in line).split("smemsim ")[1]
    again = smemsim(reproduce)
    assert again.exit_code == 1
    assert "1 cases, " in again.stdout
    report = json.loads(smemsim(f"replay {tmp_path} --json").stdout)
    assert [d["case"] for d in report["suites"][0]["differences"]] == [3]


def test_replay_of_a_damaged_trace_exits_with_2(tmp_path):
    shutil.copytree(GOLDEN / "sm_90a" / "tma_wgmma", tmp_path / "t")
    data = tmp_path / "t" / "data.npz"
    data.write_bytes(data.read_bytes()[:-1000])
    result = smemsim(f"replay {tmp_path}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert str(data) in result.stderr


def test_decoding_imports_neither_numpy_nor_numba():
    code = (
        "import sys; from smemsim.cli import main; main(['decode', '0x4000404000010040', '--arch', 'sm_100a'], standalone_mode=False); "
        "sys.exit(bool({'numpy', 'numba'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_version():
    assert smemsim("--version").stdout.startswith("smemsim 0.")


def test_a_dot_product_as_json_has_every_term():
    result = smemsim("dot --a-type bf16 -a 3f80,3380*15 -b 3f80*16 -c 3f000000 --json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["arithmetic"]["kept_bits"] == 25
    assert [t["k"] for t in found["terms"]] == [[], *([k] for k in range(16))]
    assert int(found["d"], 16) == 0x3FC00007 != int(found["exact_sum_to_nearest"], 16)


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs a full disk")
@pytest.mark.parametrize("words", ["--version", "--help", "plan --help", "explain D308"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_told_in_a_sentence(words, unbuffered):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "smemsim", *words.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("smemsim: cannot read or write: No space left on device")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs a full disk")
@pytest.mark.parametrize("words", ["nonsense", "decode", "decode nonsense", "plan --nonsense"])
def test_an_error_that_nobody_can_read_has_its_exit_code(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "smemsim", *words.split()], stdout=full, stderr=full, check=False)
    assert done.returncode == 2


def test_a_command_ends_without_a_look_at_its_objects():
    """After a program of 200,000 branches Python's last look for garbage took longer than the launch."""
    text = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 0)); from smemsim.cli import main; main(['decode', '0x4000404000010040'])"
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "True"


def test_text_of_files_cannot_command_the_terminal(tmp_path):
    """A card's name that names the window and clears the screen, and one that turns the direction of text: shown as
    escapes. Colours that smemsim writes stay.
    """
    shutil.copytree(GOLDEN / "sm_90a" / "wgmma_reserved_bits", tmp_path / "t")
    manifest = json.loads((tmp_path / "t" / "manifest.json").read_text())
    manifest["device"]["gpu"] = "\x1b]0;mine\x07\x1b[2J\x1b[8m\u202ecard\x9b2J"
    (tmp_path / "t" / "manifest.json").write_text(json.dumps(manifest))
    done = subprocess.run([sys.executable, "-m", "smemsim", "replay", str(tmp_path)], capture_output=True, check=False, encoding="utf-8")
    assert done.returncode == 0
    # click takes some sequences away where no terminal reads
    assert re.search(r"\\x1b\]0;mine\\x07.*\\u202ecard\\x9b2J", done.stdout)
    assert all(c.isprintable() or c == "\n" for c in done.stdout)


@pytest.mark.parametrize(
    ("words", "code", "is_unbuffered"),
    [
        ("decode 0x0000004000010040 --arch sm_90a --swizzle 128B", 1, ""),
        ("decode 0x0000004000010040 --arch sm_90a --swizzle 128B", 1, "1"),
        ("decode zz", 2, ""),
        ("explain --help", 0, ""),
    ],
)
def test_a_reader_that_leaves_changes_no_exit_code(words, code, is_unbuffered):
    """As in `smemsim check kernel.toml | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    env = {**os.environ, "PYTHONUNBUFFERED": is_unbuffered}
    done = subprocess.run([sys.executable, "-m", "smemsim", *words.split()], stdout=writer, stderr=writer, env=env, check=False)
    os.close(writer)
    assert done.returncode == code


def test_public_names_are_explained_on_one_screen_and_misspelt_ones_are_named():
    import inspect
    import pydoc

    import smemsim as package

    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isroutine(value):
            assert len(pydoc.plain(pydoc.render_doc(value)).splitlines()) <= 50, name
        elif inspect.isclass(value):
            assert len((value.__doc__ or "").splitlines()) <= 50, name
    mine = type("Mine", (package.InputError,), {"more": 1, "__module__": "users"})
    assert dir(mine) == ["more"], "a user's class shows what the user defines"
    with pytest.raises(AttributeError, match="did you mean 'SmemDescriptor'"):
        _ = package.SmemDescripter
    made = package.TensorMap.tiled(data_type="u8", global_address=0x10000, global_dim=(64,), global_strides=(), box_dim=(32,))
    assert made.encode() == bytes(made)


def test_without_a_command_there_is_the_help_and_no_advice_after_it():
    done = smemsim("")
    assert done.exit_code in (0, 2)  # as click has it: 0 before 8.2
    assert done.output.startswith("Usage: ")
    assert "--help lists the options" not in done.output
    assert smemsim("--nope").stderr == "smemsim: --nope: no such option; smemsim --help lists the options\n"


def test_a_word_without_arch_names_what_differs_between_cards():
    said = smemsim("decode 0x4000004000010040").stdout
    assert "\nsm_90a has layout_type in bits 63:62.\nsm_100a has layout_type in bits 63:61, lbo_mode in bit 52, " in said
    assert "sm_103a has the fields of sm_100a, and alone the absolute LBO mode for rows of 48 bytes" in said
    assert "sm_103a" not in smemsim("decode 0x4000004000010040 --arch sm_90a").stdout
