"""The command line: ``python -m jaxpool <command>``."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Command(NamedTuple):
    """A subcommand: its options, and what it does. ``run`` returns the exit status."""

    name: str
    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _no_options(parser: argparse.ArgumentParser) -> None:
    del parser


def _demo(options: argparse.Namespace) -> int:
    del options
    from ._demo.show import show

    return show()


# A new subcommand is one row here. `run` imports what it needs, so that --help stays quick.
COMMANDS = (
    Command(
        "demo",
        "train a digit classifier and show what its pooling layers did",
        _no_options,
        _demo,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m jaxpool", description="jaxpool: pooling for JAX."
    )
    subparsers = parser.add_subparsers(title="commands", metavar="command", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.help, description=command.help)
        command.add_options(subparser)
        subparser.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
