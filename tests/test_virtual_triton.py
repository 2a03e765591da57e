"""Triton, Gluon and torch on the virtual GPU: an unmodified file of tests, run as its author would, on both architectures."""

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET

import pytest

from exact import SMEMSIM

pytest.importorskip("triton", reason="needs Triton (smemsim[oracles])")
pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the virtual GPU needs Linux")

SUITE = pathlib.Path(__file__).parent / "programs" / "gpu_suite.py"
WRONG = {"test_past_the_end": "X001", "test_copy_through_shared_memory[False]": "X004"}
