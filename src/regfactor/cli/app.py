"""The commands and their options; the module of a command is imported when it is run."""

from __future__ import annotations

import importlib
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from regfactor.cli.job import Settings, running
from regfactor.cli.options import FITTING, READING, TEXT, WRITING, sharing

EXITS = (
    "Exit codes: 0 done, 2 bad input (nothing is written), 3 not converged (the result is "
    "written), 4 a result cannot be written (files are as they were), 130 interrupted (129, 143 by "
    "SIGHUP, SIGTERM)."
)
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXITS,
    rich_markup_mode="rich",
)
SOURCE_HELP = "Text (also .gz), .xlsx, .ods, Parquet, Feather or NPZ; - for standard input."
Source = Annotated[
    Path,
    typer.Argument(metavar="TABLE", help=SOURCE_HELP, show_default=False),
]


def _run(command: str, settings: Settings, *arguments: Any) -> None:
    """Import the module of a command, and run it."""
    with running(command, settings) as job:
        importlib.import_module(f"regfactor.cli.{command}").run(job, *arguments)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"regfactor {version('regfactor')}")
        raise typer.Exit()


@app.callback()
def regfactor(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Regularized factor models for tables: fill, label, cluster, embed, denoise, forecast.

    Each command prints how it read the table, what it did, and how sure the result is.

    Commands that fill, label, cluster, embed, denoise, forecast or score write the result to
    <stem>.<command>.csv (or .parquet) and a report to <stem>.<command>.html next to their input.
    """


@app.command()
@sharing(FITTING, READING, WRITING)
def complete(
    table: Source,
    settings: Settings,
    level: Annotated[
        float | None,
        typer.Option(
            help="Write limits between which filled numbers lie, and sets that hold the filled "
            "category, with this probability; 0.9 for instance."
        ),
    ] = None,
) -> None:
    """Fill the missing cells of a table, and flag gross outliers."""
    _run("complete", settings, table, level)


@app.command()
@sharing(TEXT, FITTING, READING, WRITING)
def label(
    table: Source,
    target: Annotated[
        str,
        typer.Option(help="Column whose empty cells are to be filled.", show_default=False),
    ],
    settings: Settings,
    task: Annotated[
        str | None,
        typer.Option(help="classification or regression. By default the target decides."),
    ] = None,
    unlabeled: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE",
            help="What marks a row without a label, besides an empty cell.",
        ),
    ] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FEATURE=LABEL:SHARE[+-TOL]",
            help=(
                "What is known of unlabeled rows: of those with the word, flag or category "
                "FEATURE, a SHARE is LABEL; 'all' means all rows. May be repeated."
            ),
        ),
    ] = None,
    classes: Annotated[str | None, typer.Option(help="All classes, separated by commas.")] = None,
) -> None:
    """Fill the missing labels or numbers of a column, and report whether unlabeled rows helped."""
    _run("label", settings, table, target, task, unlabeled, tuple(constraint or ()), classes)


@app.command()
@sharing(TEXT, FITTING, READING, WRITING)
def cluster(
    table: Source,
    settings: Settings,
    clusters: Annotated[
        str,
        typer.Option(
            help="Number of clusters; auto: by BIC, or by silhouettes (2 to 10) with --divergence."
        ),
    ] = "auto",
    divergence: Annotated[
        str,
        typer.Option(
            help="auto: the mixture that the data support best; or k-means: squared on scaled "
            "numbers; kl, itakura_saito, ... on numbers as they are; bernoulli on 0/1 and columns "
            "of two words."
        ),
    ] = "auto",
    family: Annotated[
        str,
        typer.Option(
            help="How numbers vary within a group: auto: as the data support best; or gaussian, "
            "gamma, poisson, negative_binomial, multinomial."
        ),
    ] = "auto",
) -> None:
    """Put rows into groups of similar rows.

    Missing cells are left out of the comparison. With --divergence, and with columns of text,
    missing numbers are filled by the median of their column, flags by the more frequent value; an
    empty category becomes a category of its own, '(missing)'. `regfactor complete` fills them
    better.
    """
    _run("cluster", settings, table, clusters, divergence, family)


@app.command()
@sharing(FITTING, READING, WRITING)
def embed(
    table: Source,
    settings: Settings,
    dimensions: Annotated[int, typer.Option(help="Number of codes for each row.", min=1)] = 2,
    family: Annotated[
        str,
        typer.Option(
            help="How numbers vary: auto: by the kind of each column; or gaussian, bernoulli, "
            "poisson, negative_binomial, gamma."
        ),
    ] = "auto",
) -> None:
    """Describe every row by a few numbers; missing cells are allowed."""
    _run("embed", settings, table, dimensions, family)


@app.command()
@sharing(FITTING, READING, WRITING)
def denoise(
    table: Source,
    views: Annotated[
        str,
        typer.Option(
            help=(
                "First and last column of both views, as in height:waist,pressure:age; or by "
                "numbers from 0, without the end, as in 0:20,20:40."
            ),
            show_default=False,
        ),
    ],
    settings: Settings,
    family: Annotated[
        str,
        typer.Option(
            help="How cells vary about what views share, for both views or one for each, as in "
            "auto,bernoulli: auto (noise with gross errors), gaussian, bernoulli, poisson, "
            "negative_binomial, gamma."
        ),
    ] = "auto",
) -> None:
    """Clean two views of the same rows by what they share; missing cells and views are filled."""
    _run("denoise", settings, table, views, family)


@app.command()
@sharing(FITTING, READING, WRITING)
def forecast(
    series: Annotated[
        Path,
        typer.Argument(
            metavar="SERIES", help=f"A row for each time. {SOURCE_HELP}", show_default=False
        ),
    ],
    settings: Settings,
    horizon: Annotated[int, typer.Option(help="Number of times to forecast.", min=1)] = 12,
    level: Annotated[
        float, typer.Option(help="Share of the future values that the intervals contain.")
    ] = 0.9,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column of the times. By default the only one of dates."
        ),
    ] = None,
    season: Annotated[
        int | None,
        typer.Option(
            help="Number of rows in a season; 1 for none. By default it is found in the series.",
            min=1,
        ),
    ] = None,
    exog: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help=(
                "An input whose future is known, given in rows after the last value of the "
                "series. May be repeated."
            ),
        ),
    ] = None,
    holidays: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Public holidays as an input, of a country or a part of it: DE, US-CA.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--series",
            metavar="COLUMN",
            help="Column that names the series in a long table. By default the one that separates "
            "them.",
        ),
    ] = None,
    resample: Annotated[
        str | None,
        typer.Option(
            metavar="RULE[:HOW]",
            help="Combine rows at irregular times: D, h, W, MS; D:sum adds them up.",
        ),
    ] = None,
) -> None:
    """Forecast one or several series, with intervals that were tried on the past."""
    inputs = tuple(exog or ())
    told = (horizon, level, season, holidays, time, by, inputs, resample)
    _run("forecast", settings, series, *told)


@app.command()
@sharing(READING, WRITING)
def score(
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="Model file that --save wrote.", show_default=False),
    ],
    rows: Annotated[
        Path,
        typer.Argument(
            metavar="NEW_ROWS",
            help="Table with the columns of the one that was fitted.",
            show_default=False,
        ),
    ],
    settings: Settings,
) -> None:
    """Apply a saved model to new rows: fill, label, cluster, embed, denoise or forecast them."""
    _run("score", settings, model, rows)


@app.command()
def atlas(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show which classical algorithm is which factor model."""
    _run("atlas", Settings(json=json))


@app.command()
def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(metavar="ID", help="Such as aistats-1; `list` names all."),
    ],
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Two splits only, to see whether everything runs."),
    ] = False,
    splits: Annotated[
        int | None, typer.Option(help="Number of splits of each data set.", min=1)
    ] = None,
    jobs: Annotated[int, typer.Option(help="Number of processes.", min=1)] = 1,
) -> None:
    """Run an experiment of the papers again (from a checkout of the source)."""
    _run("reproduce", Settings(), experiment, quick, splits, jobs)
