"""The command line: ``python -m jaxpool <command>``."""

import argparse
import io
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import __version__
from ._errors import Message, message


class Command(NamedTuple):
    """A subcommand with its options; ``run`` executes it and returns the exit status."""

    name: str
    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _demo(options: argparse.Namespace) -> int:
    del options
    from ._demo.show import show

    return show()


def _pool_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe a pooling."""
    add = parser.add_argument
    add("--shape", type=_integers, required=True, help="full shape, such as 8,112,112,64")
    add("--window", type=_integers, required=True, help="taps per pooled axis, such as 3,3")
    add("--strides", type=_integers, required=True, help="one per pooled axis, or one for all")
    paddings = "VALID (default), SAME, 1 or 1,0 or 0:1,1:2"
    add("--padding", type=_padding, default="VALID", help=paddings)
    dilations = "one per pooled axis, or one for all (default 1)"
    add("--dilations", type=_integers, default=1, help=dilations)
    add("--rounding", default="floor", help="floor (default), ceil or ceil_torch")
    add("--data-format", default="channels_last", help="such as NCHW (default channels_last)")
    ops = "max_pool (default), min_pool, avg_pool, sum_pool, or one with indices"
    add("--op", default="max_pool", help=f"{ops}, such as max_pool_with_argmax")
    add("--dtype", default="float32", help="dtype of the array (default float32)")
    add(
        "--exclude-pad",
        action="store_true",
        help="exclude padding from the divisors of averages",
    )
    implementation = "implementation, such as slices or reduce_window (default auto)"
    add("--implementation", default="auto", metavar="NAME", help=implementation)


def _pool_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the options of :func:`_pool_options` as arguments of ``explain``."""
    return {
        "x_or_shape": _as_tuple(options.shape),
        "window_shape": _as_tuple(options.window),
        "strides": options.strides,
        "padding": options.padding,
        "op": options.op,
        "dilations": options.dilations,
        "rounding": options.rounding,
        "data_format": options.data_format,
        "dtype": options.dtype,
        "count_include_pad": not options.exclude_pad,
        "implementation": options.implementation,
    }


_OPTION_NAMES = {
    "x_or_shape": "--shape",
    "window_shape": "--window",
    "data_format": "--data-format",
    "path": "--plot",
    **{name: f"--{name}" for name in ("strides", "padding", "dilations", "rounding")},
    **{name: f"--{name}" for name in ("op", "dtype", "implementation")},
}
"""The option for each argument of ``explain`` and of ``Explanation.plot``."""

_EXPLAINING = ("explain: ", "Explanation.plot: ")

_SUBSTITUTIONS = {
    rf'\b({"|".join(_OPTION_NAMES)})="?(\w+)"?': (
        lambda match: f"{_OPTION_NAMES[match[1]]} {match[2]}"
    ),
    r"\bdata_format\b": "--data-format",
    r"\bx\.astype\(jnp\.(\w+)\)": r"--dtype \1",
    r'`(--[\w-]+)`="(\w+)"': r"\1 \2",
    r"\bjnp\.": "",
    r"\(low, high\)": "low:high",
    r"\((?:\(\d+, \d+\),? ?)+\)": (
        lambda match: ",".join(re.findall(r"\d+:\d+", match[0].replace(", ", ":")))
    ),
}
"""Patterns of Python code in an error, and their replacements on the command line."""


def _as_command_line_error(error: Exception, command: str) -> str:
    """Return the text of an error with options in place of Python arguments."""
    text = error.args[0] if error.args else None
    if not isinstance(text, Message):
        return str(error)
    translated: str = Message(
        text.template, command if text.startswith(_EXPLAINING) else "", _OPTION_NAMES
    )
    for pattern, replacement in _SUBSTITUTIONS.items():
        translated = re.sub(pattern, replacement, translated)
    return translated


def _fail(text: str) -> int:
    """Print an error; return the exit status."""
    print(text, file=sys.stderr)
    return 1


def _as_tuple(numbers: int | tuple[int, ...]) -> tuple[int, ...]:
    return numbers if isinstance(numbers, tuple) else (numbers,)


def _integers(text: str) -> int | tuple[int, ...]:
    numbers = _split(text, ",")
    return numbers[0] if len(numbers) == 1 else numbers


def _split(text: str, separator: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(separator))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of integers such as {separator.join('33')}"
        ) from None


def _padding(text: str) -> Any:
    """Parse padding: a word, integers, or pairs of integers, as in SAME, 1, 1,0 or 0:1,1:2."""
    if text.replace("_", "").isalpha():
        return text
    if ":" in text:
        return tuple(_split(pair, ":") for pair in text.split(","))
    return _integers(text)


def _explain_options(parser: argparse.ArgumentParser) -> None:
    _pool_options(parser)
    plot = "also plot the windows with matplotlib, to a file such as out.png or out.svg"
    parser.add_argument("--plot", metavar="FILE", type=_file, help=plot)


def _file(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the name is empty; give for example out.png")
    return text


def _explain(options: argparse.Namespace) -> int:
    from ._explain.explain import explain

    try:
        explanation = explain(**_pool_settings(options))
        print(explanation)
        if options.plot:
            explanation.plot(options.plot)
    except BrokenPipeError:
        raise
    except (TypeError, ValueError, NotImplementedError, ModuleNotFoundError, OSError) as error:
        return _fail(_as_command_line_error(error, "explain"))
    return 0


def _bench_options(parser: argparse.ArgumentParser) -> None:
    _pool_options(parser)
    seconds = "seconds for which the two programs of each row alternate (default 2)"
    parser.add_argument("--seconds", type=_seconds, default=2.0, help=seconds)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 2")
    return seconds


def _bench(options: argparse.Namespace) -> int:
    from ._bench.bench import bench

    try:
        for line in bench(__version__, options.seconds, **_pool_settings(options)):
            print(line, flush=True)
    except (TypeError, ValueError, NotImplementedError, RuntimeError, MemoryError) as error:
        return _fail(_as_command_line_error(error, "bench"))
    return 0


def _port_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="an ONNX file, or the .xml file of an OpenVINO model")
    parser.add_argument(
        "--check",
        action="store_true",
        help="run each operation in jaxpool and in ONNX Runtime or OpenVINO, and compare",
    )


def _port(options: argparse.Namespace) -> int:
    from ._port.port import port
    from ._port.text import printable

    try:
        return port(options.model, options.check)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(_cannot_be_read(options.model, error))
    except (ValueError, ModuleNotFoundError) as error:
        return _fail("\n".join(map(printable, str(error).split("\n"))))


def _cannot_be_read(path: str, error: OSError) -> str:
    name = repr(path).replace("$", "$$")  # not truncated
    return message(
        f"{name} cannot be read.",
        f"The system says: {error.strerror or error}.",
        "Give the path of an ONNX file, or of the .xml file of an OpenVINO model.",
    )


def _doctor(options: argparse.Namespace) -> int:
    del options
    from ._explain.doctor import doctor

    print(*doctor(__version__), sep="\n")
    return 0


# A new subcommand is one more row. `run` imports its modules itself, so that --help stays fast.
COMMANDS = (
    Command(
        "demo",
        "train a digit classifier and show what its pooling layers did",
        lambda parser: None,
        _demo,
    ),
    Command(
        "explain",
        "describe what a pooling does to a shape: sizes, windows, divisors, cost, implementation",
        _explain_options,
        _explain,
    ),
    Command(
        "bench",
        "compare the results and times of a pooling and lax.reduce_window on this machine",
        _bench_options,
        _bench,
    ),
    Command(
        "port",
        "print the pooling operations of an ONNX or OpenVINO model and the calls for them",
        _port_options,
        _port,
    ),
    Command(
        "doctor",
        "print versions, devices, plan and known problems of this machine, for bug reports",
        lambda parser: None,
        _doctor,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m jaxpool", description="jaxpool: pooling for JAX."
    )
    parser.add_argument("--version", action="version", version=f"jaxpool {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="command", required=True)
    for command in COMMANDS:
        subparser = subparsers.add_parser(command.name, help=command.help, description=command.help)
        command.add_options(subparser)
        subparser.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    return options.run(options)


def _main_with_pipe() -> int:
    """Run :func:`main`; return 1 if the reader of a pipe closes it before the output ends.

    Characters that the encoding of the output lacks are escaped, such as those of names in a file.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = main()
        print(end="", flush=True)  # does nothing if there is no output stream
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes at exit
        return 1
    return status


if __name__ == "__main__":
    sys.exit(_main_with_pipe())
