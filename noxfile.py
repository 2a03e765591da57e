"""Tasks that people run: `nox -l` lists them, `nox -s docs` runs one. `pip install nox`."""

import nox

nox.options.sessions = ["lint", "tests"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, mypy and the layers."""
    session.install("-e", ".[test,lint]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """All tests, four to six minutes on two cores; arguments behind -- go to pytest."""
    session.install("-e", ".[test]")
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def nightly(session: nox.Session) -> None:
    """All examples of every property, others every time."""
    session.install("-e", ".[test,oracles]")
    session.run("pytest", "-n", "auto", "--hypothesis-profile=nightly", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """One-point changes of the code that tests must notice: `nox -s mutants -- run/sanitizer diagnosis`; all tests once, then a minute a mutant."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "tools.mutants", *(session.posargs or ["core/machine", "diagnosis", "run", "virtual", "campaign"]))


@nox.session
def replay(session: nox.Session) -> None:
    """The model against every trace."""
    session.install("-e", ".")
    session.run("smemsim", "replay", "golden/")


@nox.session
def docs(session: nox.Session) -> None:
    """Every example of the documentation, and the site in docs/_build/html."""
    session.install("-e", ".[docs]")
    session.run("python", "-m", "tools.docs", "--check", *session.posargs)
    session.run("python", "-m", "sphinx", "-W", "--keep-going", "docs", "docs/_build/html")


@nox.session
def build(session: nox.Session) -> None:
    """sdist and wheel in dist/."""
    session.install("build")
    session.run("python", "-m", "build")
