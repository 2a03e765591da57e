"""Every refusal of a command names what was written and what would be right, with exit code 2; numbers and words mean
the same in every form.
"""

import json
import shlex

import numpy as np
import pytest
from click.testing import CliRunner

from smemsim import InstrDescriptor
from smemsim.cli import main

LAYOUT = "(64,16):(16,1)"
WRITTEN = ["--base", "0x400", "--arch", "sm_90a", "--dtype", "bf16", "--major", "K"]


def split(words):
    return [part for word in shlex.split(words) for part in ([LAYOUT] if word == "{L}" else WRITTEN if word == "{W}" else [word])]


def ran(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("d", "a", "b"):
        np.save(f"{name}.npy", np.zeros((64, 64), np.float32))
    np.save("floats.npy", np.zeros(64, np.float32))
    np.save("zeros.npy", np.zeros(4096, np.uint8))
    np.save("few.npy", np.zeros((64, 16), np.uint16))
    (tmp_path / "k.toml").write_text("")
    (tmp_path / "k.ptx").write_text(KERNEL)
    (tmp_path / "t.ptx").write_text(KERNEL.replace("sm_90a", "sm_80").replace("ret;", ".reg .b32 %r1; mov.u32 %r1, %tid.x; ret;"))
    (tmp_path / "p.ptx").write_text(KERNEL.replace(".visible", PRINTS).replace("ret;", CALL))
    (tmp_path / "u.ptx").write_text(KERNEL, encoding="utf-16")
    (tmp_path / "w.ptx").write_text(KERNEL.replace("sm_90a", "sm_90a, texmode_unifed"))
    (tmp_path / "v.ptx").write_text(KERNEL.replace("sm_90a", "sm_90a, texmode_unified"))
    (tmp_path / "n.ptx").write_text(KERNEL.replace(".b64 q", ".u32 n"))
    (tmp_path / "m.ptx").write_text(KERNEL + KERNEL.partition(".address_size 64")[2].replace("k(", "other("))
    (tmp_path / "a.toml").write_text(
        'ptx = "k.ptx"\ngrid = 1\narrays = [{name = "a", dtype = ["f32"], shape = [8], distribution = "zeros"}]\n'
    )
    (tmp_path / "e.toml").write_text("grid = 1\nblock = 1\n")
    (tmp_path / "zeros.py").write_bytes(bytes(9))
    (tmp_path / "folder").mkdir()
    (tmp_path / "l.toml").write_text('ptx = "k.ptx"\ngrid = 1\nblock = 1\nargs = [{null = true}, {value = 1, type = "u64"}]\n')
    for name in ("SMEMSIM_ARCH", "SMEMSIM_CARD"):
        monkeypatch.delenv(name, raising=False)


KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .b64 q) { ret; }
"""
PRINTS = """.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[9] = {115, 97, 105, 100, 32, 115, 111, 10, 0};
.visible"""
CALL = """.reg .b64 %rd1; mov.b64 %rd1, text; cvta.global.u64 %rd1, %rd1; { .param .b64 f; .param .b64 a; .param .b32 r;
st.param.b64 [f], %rd1; st.param.b64 [a], 0; call (r), vprintf, (f, a); } ret;"""
D = InstrDescriptor(kind="f16", a_type="bf16", b_type="bf16", d_type="f32", m=128, n=64).encode()

REFUSED = [
    # words
    ("decode xyz", "'xyz': no such file, and not a 64-bit word; write a word as 0x…, as 16 hex digits, or in decimal (a tensor map: 256 hex digits"),
    ("decode xyz --kind f16", "'xyz': no such file, and not a 32-bit word; write a word as 0x…, or in decimal"),
    ("decode 'x y'", "'x y': not a 64-bit word"),
    *((f"decode {text} 3", "'3' is one argument too many: the first is a whole map") for text in ("'f(x)'", "k.ptx", "00" * 128)),
    ("solve k.ptx", "k.ptx"),
    # solve: its forms
    ("solve", "no input: give one of: SCENARIO descriptors for an operand of a scenario DUMP OPERAND"),
    ("solve a.npy b.npy d.npy", "3 files: give one of"),
    ("solve k.toml --layout {L}", "a scenario and --layout: needs one of"),
    ("solve a.npy b.npy --d d.npy", "a dump and an operand and --d --a --b: needs one of"),
    ("solve k.toml --rows 3", "--rows: not an option of a scenario"),
    ("solve k.toml --base 0x400 --packing padded", "--base, --packing: not an option of a scenario"),
    ("solve k.toml --a-type bf16", "--a-type: not an option of a scenario"),
    ("solve a.npy b.npy --operand step[1].a", "--operand: not an option of a dump and an operand"),
    ("solve a.npy b.npy --pitch 8", "--pitch: not an option of a dump and an operand"),
    ("solve --layout {L} --d-type f16", "--d-type: not an option of --layout"),
    ("solve --layout {L} --operand x", "--operand: not an option of --layout"),
    ("solve --d d.npy --a a.npy --b b.npy --rows 3", "--rows: not an option of --d --a --b"),
    ("solve --d d.npy --a a.npy --b b.npy --tma", "--tma: not an option of --d --a --b"),
    ("solve --a a.npy", "--d, --b, --arch, --a-type are missing"),
    ("solve --d d.npy --a a.npy --b b.npy --arch sm_90a", "--a-type is missing"),
    ("solve a.npy b.npy", "--base, --arch, --dtype, --major are missing; smemsim solve --help has examples"),
    ("solve --layout {L} --base 0 --arch sm_90a --dtype bf16", "--major is missing; smemsim solve --help has examples"),
    ("solve --layout (4,4,4):(1,4,16) {W}", "needs two modes, (M or N, K), and at most"),
    ("solve --layout (65536,65536):(65536,1) {W}", "needs two modes, (M or N, K), and at most"),
    ("solve floats.npy a.npy {W}", "floats.npy: an array of float32; needs bytes, uint8"),
    # solve --conflicts
    ("solve k.toml --conflicts", "files: nothing of --conflicts; give accesses by --access OP:BYTES:AT"),
    ("solve --conflicts --arch sm_90a", "--arch: not an option of --conflicts"),
    ("solve --conflicts --d d.npy", "--d: not an option of --conflicts"),
    ("solve --conflicts --rows 3", "--rows: not an option of --conflicts"),
    ("solve --conflicts --a-type bf16", "--a-type: not an option of --conflicts"),
    ("solve --conflicts", "--access is missing; smemsim solve --help has an example"),
    ("solve --conflicts --dtype e2m1 --access st:16:lane*16", "--dtype e2m1: needs elements of whole bytes"),
    ("solve --conflicts --access nothing", "--access: "),
    # dot
    ("dot --a-type bf16 -a ' ' -b 0", "-a: no words"),
    ("dot --a-type bf16 -a 3f80 -b *3", "-b: '*3' is not a word, or a word * how often"),
    ("dot --a-type bf16 -a 3f80*257 -b 0", "-a: more than 256 elements; no instruction has as many"),
    ("dot --a-type bf16 -a 3f80*200,3f80*57 -b 0", "-a: more than 256 elements; no instruction has as many"),
    ("dot --a-type bf16 -a 3f80*256 -b 0", "256"),
    ("dot --a-type bf16 -a xyz -b 0", "-a: 'xyz' is not a hexadecimal word; numbers are taken with --values"),
    ("dot --values --a-type bf16 -a 1 -b abc", "-b: 'abc' is not a number, as 1.5, -2e-3, 2^-24 or inf"),
    ("dot --values --a-type bf16 -a 2^9999 -b 1", "-a: '2^9999' is not a number"),
    ("dot --a-type bf16 -a 0 -b 0 --scale-a 38", "--scale-a, --scale-b, --scale-type: wgmma has no scale factors"),
    ("dot --a-type bf16 -a 0 -b 0 --scale-b 38", "wgmma has no scale factors"),
    ("dot --a-type bf16 -a 0 -b 0 --scale-type ue8m0", "wgmma has no scale factors"),
    ("dot --kind f16 --a-type f16 -a 0 -b 0 --scale-a 38", "--scale-a, --scale-b, --scale-type: f16 has no scale factors"),
    # arguments of a kernel
    *((f"run k.ptx --arg {text}", said) for text, said in (
        ("zeros:f32:-1", "needs zeros:TYPE:SHAPE"), ("integers:s32:4", "needs integers:TYPE:SHAPE:LOWEST:HIGHEST"), ("integers:s32:4:1", "needs integers:TYPE:SHAPE:LOWEST:HIGHEST"),
        ("zeros:f32:4:1:2", "needs zeros:TYPE:SHAPE"), ("zeros:f99:4", "'f99' is not an element type"), ("zeros:f32:a", "needs a shape after the type, as zeros:f32:128x64"),
        ("zeros::a", "needs a shape after the type, as zeros:f32:128x64"), ("u32:1.5", "needs a whole number after the colon"), ("f32:x", "needs a number after the colon"),
        ("scratch:x", "needs a whole number after the colon"), ("array:0", "needs the number of an earlier argument that is an array, the first is 0"),
        ("7", "a number is u32:7"), ("x.npy", "a file is file:x.npy"), ("zero:f32:3", "did you mean 'zeros'?"),
    )),
    ("run k.ptx --block 1 --arg null --arg u64:1 --cta 0", "--cta: is for --pipeline; give both"),
    ("run k.ptx --block 1 --arg null --arg u64:1 --costs k.toml", "--costs: is for --pipeline; give both"),
    ("run n.ptx --block 1 --arg null --arg f32:3", "args[1]: type = f32, parameter n is .u32; write --arg u32:3"),
    ("run n.ptx --block 1 --arg f32:0.5 --arg u32:3", "args[0]: type = f32, parameter p is .u64; write --arg zeros:f32:1024 for an array, --arg u64:0 for a number"),
    ("run a.toml", "arrays[0].dtype = ['f32']: needs the name of an element type"),
    ("run e.toml", 'e.toml: has no key ptx, and kernel.ptx is not there; add ptx = "FILE", or smemsim run FILE --launch e.toml'),
    ("run n.ptx --block 1 --arg u32:3 --arg u32:3", "args[0] (p, .u64): has 8 bytes, 4 were given; for an address pass an array, for a number one of 8 bytes (u64)"),
    ("run n.ptx --block 1 --arg null --arg zeros:f32:8", "args[1] (n, .u32): has 4 bytes, 8 were given; an array's address and u64 have 8; are the arguments in order?"),
    ("run k.ptx --ctas 0-9999999999", "--ctas '0-9999999999': names more than 4,194,304 CTAs; without --ctas all CTAs run"),
    ("run k.ptx --list --init", "--list and --init: needs one of the two"),
    ("run m.ptx", "entry is missing: name one kernel; the PTX has k, other"),
    ("run u.ptx", "u.ptx: not a text file (byte 0 is not UTF-8); PTX is ASCII: save the file as ASCII or UTF-8"),
    ("run w.ptx", "w.ptx, line 2: .target: unknown word 'texmode_unifed'; did you mean 'texmode_unified'?"),
    # D in tensor memory
    (f"map {D:#x} --kind f16 --element 0,0 --cell 0,0", "--element, --cell and --register exclude each other"),
    (f"map {D:#x} --kind f16 --register 1,2,3", "--register and --ld go together"),
    (f"map {D:#x} --kind f16 --ld 32x32b.x32", "--register and --ld go together"),
    (f"map {D:#x} --kind f16 --element 0,0 --csv", "--csv: of the whole D; one element is printed as text or --json"),
    (f"map {D:#x} --kind f16 --element 0", "--element"),
    # plans
    *((f"plan 128x64 --arch sm_90a --dtype bf16 --major K --all {more}", "--all: shows every swizzle and stacking; leave --swizzle, --stack, --code and --scenario out")
      for more in ("--swizzle 64B", "--scenario", "--code cuda")),
    ("plan 128x64 --arch sm_90a --dtype bf16 --major K --one-box", "--one-box: says how the --scenario is loaded"),
    ("plan 128 --arch sm_90a --dtype bf16 --major K", "needs ROWSxK, as 128x64, or MxNxK, as 128x256x64"),
    ("decode 0x4000404000010040 --zipped-divide 8,8", "--zipped-divide: of a layout, as '((8,16),(64,2)):((64,512),(1,8192))'"),
    ("decode 0x4000404000010040 --arch sm_90a --tile 128x64 --dtype bf16", "--tile 128x64: needs --major of its elements too"),
    ("map {L} --arch sm_90a", "--arch: not of a layout, which takes --dtype, --smem and --zipped-divide, --logical-divide, --recast"),
    ("show k.toml --rows 8 --k-add 0", "--rows, --k-add: of a descriptor; the scenario says it of its operands"),
    # launches
    *((f"run k.ptx --block {text}", f"--block '{text}': needs one to three numbers from 1 on, as 4,2") for text in ("x", "0", "1,1,1,1", "1,0", "()")),
    ("run l.toml --launch l.toml", "l.toml and --launch l.toml: two launch files"),
    ("run l.toml --arg null", "--arg: the launch file has arguments already"),
    ("run l.toml --pipeline p.txt --workers 2", "--pipeline: a pipeline is recorded in one process; leave --workers and --dask out"),
    ("run l.toml --counters --workers 2", "--counters: counters are of one process; leave --workers and --dask out"),
    ("run l.toml --expect x", "--expect 'x': needs ARRAY=FILE.npy or ARRAY=sha256:DIGEST; arrays are"),
    ("run k.ptx --block 1 --arg zeros:u8:7 --arg u64:1 --expect arg0:bf16=d.npy", "--expect arg0:bf16: arg0 has 7 bytes, no multiple of 2"),
    ("run l.toml --pipeline p.txt --costs {}", "smemsim: --costs {}: there is no such file"),
    # evidence
    ("replay k.toml --settle --case 3", "--settle: compares whole traces; leave --case out"),
    ("replay k.toml --patch x", "--patch: writes what --settle finds; give both"),
    # cards
    ("exec --arch sm_90a", "-- PROGRAM ARGS is missing; for example: smemsim exec --arch sm_90a -- ./program"),
    ("exec --arch sm_90a --card H200", "-- PROGRAM ARGS is missing"),
    ("exec -- true", "--arch is missing; choose a card: sm_90a (H200), sm_100a (B200) or sm_103a (B300)"),
    ("exec --arch sm_100a --card H200 -- true", "--card H200: is an sm_90a, and --arch says sm_100a: leave one of them out"),
    ("exec --arch H200 -- true", "--arch H200: is the name of a card; write --card 'H200' or --arch sm_90a"),
    ("check", "no scenario is named; smemsim check FILE"),
    # CuTe layouts
    ("decode {L} --zipped-divide 8,8 --recast 8", "--zipped-divide and --recast: one at a time"),
    ("decode {L} --zipped-divide 8,8 --logical-divide 8,8", "--zipped-divide and --logical-divide: one at a time"),
    ("decode {L} --recast 8", "--recast: from how many bits? say it with --dtype"),
    ("decode {L} --zipped-divide 0,8", "--zipped-divide 0,8: every size is at least 1"),
    ("decode {L} --logical-divide 8,-1", "--logical-divide 8,-1: every size is at least 1"),
    ("decode {L} --logical-divide a", "--logical-divide 'a': needs whole numbers: a size for each mode, as 64,16"),
    # campaign
    *((f"campaign keys --shard {text}", f"--shard {text!r}: needs I/N, as 2/4") for text in ("2", "a/2", "1/b", "1/", "/2", "1/11111111111111111111")),
    *((f"campaign keys --cases {text}", f"--cases {text!r}: needs a number of cases, as 1e6") for text in ("0", "-5", "x", "1e19", "nan", "0.5")),
    *((f"campaign --reproduce {text}", "needs SPACE:SEED:CHUNK or SPACE:SEED:CHUNK:CASE, as smem:0:3:17") for text in
      ("smem:0", "smem:0:1:2:3", "smem:-1:0", "smem:0:-1", "smem:0:1:-2", "smem:9223372036854775808:0", "smem:0:9223372036854775808")),
    ("campaign --reproduce nothing:0:0", "nothing"),
    # options
    ("check k.toml --sm_90a", "--sm_90a: no such option"),
    ("run k.ptx --kernel k", "--kernel: no such option; did you mean '--entry'?"),
    ("run k.ptx --blck 1", "--blck: no such option; did you mean '--block'?"),
    ("run k.ptx -arch sm_90a", "-arch: no such option; did you mean '--arch'?"),
    ("campaign keys -3", "-3: no such option; a size has no sign: leave the - out; the negative value of an option follows =, as --at=-1,0"),
    ("check k.toml --block 3", "--block: no such option; --block is an option of smemsim run"),
    ("run k.ptx --block 1 --block 2", "--block: given 2 times; give it once"),
    ("run k.ptx --block", "--block: needs a value; smemsim run --help lists the options"),
    ("run k.ptx --counters=3", "--counters: takes no value; smemsim run --help lists the options"),
    ("cache a b c", "got unexpected extra arguments (b c);"),
    ("exec --arch sm_90a --source nowhere -- true", "smemsim: --source: directory 'nowhere' does not exist"),
    ("solve --conflicts --pitch x", "--pitch x: needs a whole number"),
    ("solve --conflicts --pitch 9223372036854775808", "--pitch 9223372036854775808: needs a whole number, below 2^63"),
    ("solve --conflicts --pitch -9223372036854775808", "below 2^63"),
    (f"replay k.toml --case {10**400}", "needs a whole number, below 2^63"),
    ("campaign keys --seconds nan", "--seconds nan: needs a number"),
    ("campaign keys --seconds inf", "--seconds inf: needs a number"),
    ("plan", "is missing; for example: smemsim plan 128x64 --arch sm_90a --dtype bf16 --major K"),
    ("nothing", "nothing"),
    ("-- --nothing", "--nothing: no such option"),
    *((f"show 0x4000404000010040 --arch sm_90a --dtype bf16 --major K --rows 16 --k 16 --k-add 0,{number}", f"k_add = {number}: needs a multiple of 16 below 0x40000")
      for number in (7, 1 << 18, -(1 << 18), 10**22)),
    *((f"{command} folder", "folder: is a folder; name a file in it") for command in ("decode", "map", "show")),
    ("explain ''", "the code is empty: give a code, as X003 (an unset variable of the shell?)"),
    ("exec --arch sm_90a --hooks folder -- true", "folder: is a folder; name a Python file in it"),
    ("exec --arch sm_90a --no-sanitize-kernels ( -- true", "--no-sanitize-kernels (unwatched) '(': is no regular expression"),
    ("exec --arch sm_90a --hooks zeros.py -- true", "zeros.py: is no Python file ("),
    *((f"{command} ''", f"smemsim: {command.split()[-1]}: is empty: name a file or a folder") for command in
      ("show k.toml --html", "replay x --settle --patch", "campaign keys --ledger", "campaign keys --out", "capture --out", "run k.ptx --source",
       "exec --source", "run k.ptx --out", "exec --json")),
    ("check ''", "is empty: name a file or a folder (an unset variable of the shell?)"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[words for words, _ in REFUSED])
def test_a_refusal_is_a_sentence_that_names_what_was_written(files, words, said):
    done = ran(*split(words))
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.output
    assert done.stdout == ""


# What a command prints, and on which stream: (words, exit code, in stdout, in stderr).
PRINTED = [
    ("evidence --open sm_110a", 0, "smemsim has no list of alternatives for sm_110a. Nothing was measured on such a card", ""),
    ("evidence --open sm_120a", 0, "alternatives are open on sm_120a", ""),
    ("evidence tma.fill --json", 0, '"rule": "tma.fill"', ""),
    ("evidence tma.fill", 0, "tma.fill: The value of filled elements", ""),
    ("explain", 0, "L401  wrong  layout-aliases", ""),
    ("explain L401 --json", 0, '"code": "L401"', ""),
    ("explain L401 L402 --json", 0, '"code": "L402"', ""),
    ("show 0x4000404000010040 --arch sm_90a --dtype bf16 --major K --rows 16 --k 16 --json", 0, '{"where": "", "name": "operand"', ""),
    ("map {L} --dtype bf16 --svg", 0, "<svg", ""),
    ("map {L} --dtype f32 --csv", 0, "i0,i1,offset,address,bit\n0,0,0,1024,0\n0,1,1,1028,0\n", ""),
    ("plan 128x64 --arch sm_90a --dtype bf16 --major K --all --json", 0, '"swizzle": "none",\n  "stack": "strided",\n  "legal": true', ""),
    ("plan 128x256x63 --dtype fp8 --arch sm_100a --json", 1, '"legal": false,\n "reason": "M = 128: k = 63', "assumed --dtype e4m3"),
    ("run k.ptx --arg null --arg u64:1", 0, "no findings", ""),
    ("run t.ptx --arg null --arg u64:1", 0, "no findings", "each CTA has 1 thread: --block is not given, and the PTX has no .reqntid"),
    ("run t.ptx --arg null --arg u64:1", 0, "no findings", ".target sm_80: run as on sm_90a (--arch chooses another)"),
    ("run t.ptx --arg null --arg u64:1 --block 1 --arch sm_90a", 0, "no findings", ""),
    ("run v.ptx --arg null --arg u64:1 --block 1", 0, "no findings", ""),
    ("run p.ptx --arg null --arg u64:1", 0, "said so\n", ""),
    # descriptors that read an operand
    ("solve zeros.npy few.npy {W}", 0, "OK: 70 descriptors read the operand; there are more. The contents repeat, so they do not show which one is meant: use data whose elements differ", ""),
    ("solve zeros.npy few.npy {W}", 0, "… 54 more (--json has all)", ""),
    ("solve --layout '((8,8),(8,2)):((8,64),(1,512))' --base 0x400 --arch sm_100a --dtype bf16 --major K", 0, "OK: 1 descriptor reads the operand\n", ""),
    ("solve --layout '((8,8),(8,2)):((8,64),(1,512))' --base 0x400 --arch sm_100a --dtype bf16 --major K", 0, "not considered: 128B_ATOM_32B has no K-major layout", ""),
    ("solve --layout '((8,8),(8,2)):((8,0),(1,512))' {W}", 0, "896 of 1024 elements have the address of another element", ""),
    ("solve --layout {L} {W}", 1, "WRONG: no descriptor reads the operand", ""),
    # layouts without conflicts
    ("solve --conflicts --access atom:4:0", 1, "none of 4 layouts is free of conflicts for all accesses\n", ""),
    ("solve --conflicts --access 'ld:4:lane * 128 + step * 4' --steps 32 --tma", 1, "nearest: Swizzle<3,4,3> on byte offsets, 128 wavefronts instead of 1024", ""),
]  # fmt: skip


@pytest.mark.parametrize(("words", "code", "out", "err"), PRINTED, ids=[f"{words} {out[:20]}" for words, _, out, _ in PRINTED])
def test_what_a_command_prints_goes_to_its_stream(files, words, code, out, err):
    done = ran(*split(words))
    assert done.exit_code == code, done.output
    assert all("".join(part.split()) in "".join(done.stdout.split()) for part in out.split("\n"))
    assert ("".join(err.split()) in "".join(done.stderr.split())) if err else not done.stderr


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("COHORTS", "0", 2), ("COHORTS", "Off", 2), ("COHORTS", "off", 0), ("COHORTS", "", 0), ("TIERS", "jit", 2), ("TIERS", "closures", 0)],
)
def test_a_variable_that_would_have_no_effect_is_refused(monkeypatch, name, value, code):
    monkeypatch.setenv(f"SMEMSIM_{name}", value)
    done = ran("decode", "0x4000004000010040", "--arch", "sm_90a")
    assert done.exit_code == code
    assert (f"SMEMSIM_{name} = '{value}': needs " in done.stderr) == bool(code)


def test_what_is_named_alone_is_no_list_as_json(files):
    one, two, every = (json.loads(ran("explain", *codes, "--json").stdout) for codes in (["L401"], ["L401", "L402"], []))
    assert (one, len(two), len(every) > 50) == (two[0], 2, True)
    assert ["page" in row for row in (one, *two, *every[:2])] == [True, True, True, False, False]
    assert [len(ran("evidence", *more).stdout.splitlines()) > 3 for more in (["tma.fill"], ["--json", "tma.fill"])] == [True, True]
    assert "statement" not in ran("evidence", "tma.fill").stdout


def test_scenarios_that_are_read_are_judged_beside_one_that_cannot_be(files, tmp_path):
    (tmp_path / "s.json").write_text(ran("plan", "128x64", "--arch", "sm_90a", "--dtype", "bf16", "--major", "K", "--scenario").stdout)
    done = ran("check", "k.toml", "s.json", "no.toml")
    assert (done.exit_code, done.stderr.count("k.toml: "), done.stderr.count("no.toml: ")) == (2, 1, 1)
    assert done.stdout.startswith("s.json: ")
    assert len(json.loads(ran("check", "k.toml", "s.json", "--json").stdout)) == 1
    assert ran("check", "s.json").exit_code == 0


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["word = 0x4000002000010040", "b = 0x40"], "word, b: one word or one tensor map at a time; give the line that is meant"),
        (["word = 0x40", f"raw = {'00' * 128}"], "word, raw: one word or one tensor map at a time"),
        (["address = 0x400"], "address = 0x400: an address, no descriptor; give the word, as word = 0x4000002000010040"),
        (["base = 0x400", "start: 0x10"], "base = 0x400: an address, no descriptor"),
        (["raw = 0011"], "4 hex digits; a tensor map is 128 bytes, 256 digits"),
        (["raw = 0x0011"], "4 hex digits; a tensor map is 128 bytes, 256 digits"),
    ],
)
def test_what_a_kernel_has_printed_is_one_word_or_one_map(files, lines, said):
    done = CliRunner().invoke(main, ["decode", "-"], input="\n".join(lines))
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.stderr.split())


def test_a_word_that_a_kernel_has_printed_beside_addresses_is_that_word(files):
    printed = CliRunner().invoke(main, ["decode", "-", "--json"], input="address = 0x400\nword: '0x4000002000010040',  # of A\nbase = 16\n")
    assert printed.stdout == ran("decode", "0x4000002000010040", "--json").stdout


@pytest.mark.parametrize(
    "given",
    [("null", "u64:1"), ("zeros:f32:0", "s64:-1"), ("random:bf16:4x2", "array:0"), ("integers:s32:4:0:5", "f64:1.5"), ("scratch:64", "bytes:0102030405060708"), ("zeros:u8:2,3", "f64:-inf")],
)  # fmt: skip
def test_arguments_of_every_kind_are_taken(files, given):
    done = ran("run", "k.ptx", "--block", 1, *(word for text in given for word in ("--arg", text)))
    assert done.exit_code == 0, done.output


def test_an_element_of_d_is_one_answer_and_a_packed_register_two():
    whole = ran("map", f"{D:#x}", "--kind", "f16", "--json")
    assert whole.exit_code == 0
    one = json.loads(ran("map", f"{D:#x}", "--kind", "f16", "--element", "5,7", "--json").stdout)
    assert isinstance(one, dict)
    both = json.loads(ran("map", f"{D:#x}", "--kind", "f16", "--register", "0,0,0", "--ld", "32x32b.x8.pack::16b", "--json").stdout)
    assert isinstance(both, list)
    assert len(both) == 2
    lines = ran("map", f"{D:#x}", "--kind", "f16", "--csv").stdout.splitlines()
    assert len(lines) == 1 + 128 * 64
    text = ran("map", f"{D:#x}", "--kind", "f16", "--register", "0,0,0", "--ld", "32x32b.x8.pack::16b").stdout
    assert [text.count(f"bits {high}:{low} of the register") for high, low in ((15, 0), (31, 16))] == [1, 1]


def test_one_argument_is_not_one_too_many(files):
    for text in ("cuTensorMapEncodeTiled(x)", "k.ptx", "00" * 128):
        assert "too many" not in ran("decode", text).output


def test_a_pipeline_goes_to_a_file_as_its_ending_says(files, tmp_path):
    words = ("run", "k.ptx", "--block", 1, "--arg", "null", "--arg", "u64:1", "--pipeline")
    found = {}
    for ending in (".txt", ".json", ".svg"):
        done = ran(*words, f"p{ending}")
        assert done.exit_code == 0, done.output
        found[ending] = (tmp_path / f"p{ending}").read_text()
    assert json.loads(found[".json"])
    assert found[".svg"].startswith("<svg")
    with pytest.raises(json.JSONDecodeError):
        json.loads(found[".txt"])


def test_an_operand_of_a_scenario_is_asked_for_by_its_step(files, tmp_path):
    (tmp_path / "s.json").write_text(ran("plan", "128x64", "--arch", "sm_90a", "--dtype", "bf16", "--major", "K", "--scenario").stdout)
    for more, said in (
        ((), "--operand is missing: needs one of step[1].a"),
        (("--operand", "step[9].a"), "operand 'step[9].a': needs one of step[1].a"),
    ):
        done = ran("solve", "s.json", *more)
        assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
    assert ran("solve", "s.json", "--operand", "step[1].a").exit_code == 0


def test_a_page_for_the_terminal_has_no_markup():
    text = ran("explain", "L401").stdout
    assert not any(mark in text for mark in ("```", "**", "](", "<!--"))
    assert any(line.startswith("    ") for line in text.splitlines())
    assert not any(line.startswith("#") for line in text.splitlines())


# ---- One number in several forms


@pytest.mark.parametrize(
    "text",
    [
        "0x4000404000010040",
        "4000404000010040",
        "0X4000_4040_0001_0040",
        "0x4000'4040'0001'0040ULL",
        f"{0x4000404000010040}",
        " 0x4000404000010040 ",
        "0b" + f"{0x4000404000010040:b}",
    ],
)
def test_a_word_means_the_same_in_every_form(text):
    wanted = ran("decode", "0x4000404000010040", "--arch", "sm_90a", "--json")
    assert ran("decode", text, "--arch", "sm_90a", "--json").stdout == wanted.stdout
    assert wanted.exit_code == 0


def dot_terms(*words):
    done = ran("dot", *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ("1 1 1", "3f80*3"),
        ("2^-3,-2^1", "3e00 c000"),
        ("1.5", "0x3fc0"),
        ("-0.5*2", "bf00,bf00"),
        ("inf", "7f80"),
        ("1e0*2 0 2^0", "3f80 3f80 0 3f80"),
    ],
)
def test_numbers_of_a_dot_product_are_its_words(numbers, words):
    b = "3f80*16"
    assert dot_terms("--values", "--a-type", "bf16", "-a", numbers, "-b", "1*16") == dot_terms("--a-type", "bf16", "-a", words, "-b", b)


def test_a_dot_product_takes_types_kinds_and_cards_that_are_left_out():
    given = ("--a-type", "e4m3", "-a", "38 1", "-b", "38 38")
    plain = dot_terms(*given)
    assert plain == dot_terms(*given, "--b-type", "e4m3", "--arch", "sm_90a", "--kind", "wgmma", "-c", "0", "--d-type", "f32")
    assert plain != dot_terms(*given, "-c", "3f800000")
    other = dot_terms(*given, "--kind", "kind::f8f6f4")
    assert other == dot_terms(*given, "--kind", "f8f6f4", "--arch", "sm_100a")


@pytest.mark.parametrize(("count", "scale"), [(2, "ue8m0"), (4, "ue4m3")])
def test_scale_factors_of_blocks_of_32_are_powers_of_two(count, scale):
    """The kind mxf4nvf4 has both types; how many factors a row has says which."""
    one = {"ue8m0": "7f", "ue4m3": "38"}[scale]
    given = (
        "--kind",
        "mxf4nvf4",
        "--a-type",
        "e2m1",
        "-a",
        "2*64",
        "-b",
        "2*64",
        "--scale-a",
        f"{one}*{count}",
        "--scale-b",
        f"{one}*{count}",
    )
    assert dot_terms(*given) == dot_terms(*given, "--scale-type", scale)


# ---- Layouts


@pytest.mark.parametrize(("layout", "code"), [("(64,16):(16,1)", 0), ("(4,4):(1,1)", 1)])
def test_a_layout_in_which_elements_share_a_place_has_exit_code_1(layout, code):
    assert [
        ran(command, layout, "--dtype", "bf16", *more).exit_code
        for command, more in (("decode", ()), ("decode", ("--json",)), ("map", ()), ("map", ("--json",)))
    ] == [code] * 4


@pytest.mark.parametrize("option", ["--zipped-divide", "--logical-divide"])
def test_a_divided_layout_has_the_same_elements(option):
    whole, divided = (json.loads(ran("map", LAYOUT, "--dtype", "bf16", "--json", *more).stdout) for more in ((), (option, "8,4")))
    assert sorted(np.ravel(whole["bit_address"])) == sorted(np.ravel(divided["bit_address"]))
    assert whole["base"] == divided["base"] == 0x400


def test_a_recast_layout_covers_the_same_bits():
    whole, recast = (
        json.loads(ran("map", LAYOUT, "--dtype", "bf16", "--smem", "0", "--json", *more).stdout) for more in ((), ("--recast", "8"))
    )
    assert {int(bit) for bit in np.ravel(recast["bit_address"])} == {
        int(bit) + half for bit in np.ravel(whole["bit_address"]) for half in (0, 8)
    }


def test_a_tile_that_lies_the_other_way_is_said():
    done = ran("solve", "--layout", "Sw<3,4,3> o (64,16):(1,64)", *WRITTEN)
    assert done.exit_code == 1
    assert "as MN-major: --major MN" in done.stderr
    right = ran("solve", "--layout", "Sw<3,4,3> o (64,16):(1,64)", *WRITTEN[:-1], "MN")
    assert (right.exit_code, right.stderr) == (0, "")


@pytest.mark.parametrize(
    ("access", "more", "code"), [("ld:4:lane * 128", (), 0), ("ld:4:lane * 128", ("--pitch", "128"), 0), ("atom:4:0", (), 1)]
)
def test_a_layout_without_conflicts_is_found_or_not(access, more, code):
    done = ran("solve", "--conflicts", "--access", access, *more)
    assert done.exit_code == code, done.output
    assert (json.loads(ran("solve", "--conflicts", "--access", access, *more, "--json").stdout)["layouts"] == []) == bool(code)
