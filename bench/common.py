# SPDX-License-Identifier: Apache-2.0
"""What bench/ shares: options, where it was measured, comparing, numbers in tables, and bars, lines and boxes in PNG files."""
import getopt
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

SMALLER_IS_BETTER = ("ns", "us")


def ratio(unit, ours, peer):
    """Above 1: ours is better."""
    if not ours or not peer:
        return None
    return peer / ours if unit in SMALLER_IS_BETTER else ours / peer


# -------------------------------------------------------------------------------------------------- options


def program():
    return pathlib.Path(sys.argv[0]).name


def parse_size(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        sys.exit(f"{program()}: '{text}' is no size")
    return int(match[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[match[2]]


def take_options(options, quick, help_text):
    """The command line into `options`, whose names it has; --quick stands for those of `quick`. There are no arguments. Ends after --help."""
    try:
        given, rest = getopt.getopt(sys.argv[1:], "", [name + "=" for name in options] + ["quick", "help"])
    except getopt.GetoptError as error:
        sys.exit(f"{program()}: {error}")
    for name, value in given:
        if name == "--help":
            print(help_text)
            sys.exit(0)
        if name == "--quick":
            options.update(quick)
        else:
            options[name[2:]] = value
    if rest:
        sys.exit(f"{program()}: it takes no argument")


# ---------------------------------------------------------------------------------------------------- where


def report(text, collect, table, plot):
    """The commands of a report, which is ended by this: collect(folder, settings), table(records) and plot(records, folder). text: how it is used."""
    words = sys.argv[1:]
    try:
        if len(words) >= 2 and words[0] == "collect":
            json.dump(collect(words[1], dict(w.split("=", 1) for w in words[2:])), sys.stdout, indent=1)
            print()
        elif len(words) == 2 and words[0] == "table":
            table(json.loads(pathlib.Path(words[1]).read_text()))
        elif len(words) == 3 and words[0] == "plot":
            plot(json.loads(pathlib.Path(words[1]).read_text()), pathlib.Path(words[2]))
        else:
            print(text.strip(), file=sys.stderr)
            sys.exit(2)
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error!r}")


def output_of(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def machine():
    model = platform.machine()
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release()}


def where():
    """The machine, with its GPU if there is one."""
    found = machine()
    try:
        found["gpu"], found["driver"] = output_of(
            "nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()[0].split(", ")
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        found["gpu"] = None
    return found


def commit():
    try:
        return output_of("git", "rev-parse", "HEAD") + ("+changes" if output_of("git", "status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


# ---------------------------------------------------------------------------------------------------- numbers


def number(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def times(value):
    return "-" if value is None else f"{value:.2f}x"


# ---------------------------------------------------------------------------------------------------- plots

GNUPLOT = """set terminal pngcairo size {width},520 noenhanced font "sans,11"
set output "{png}"
set title "{title}"
set ylabel "{label}"
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.85 noborder
{scale}
set format y "%g"
set grid ytics lc rgb "#dddddd"
{key}
set border 3
set tics nomirror out
set xtics {rotation}
$data << END
{data}
END
plot for [i=2:{last}] $data using i:xtic(1) title columnheader(i)
"""


def draw_with_gnuplot(png, title, label, series, rows, low, texts, width, slanted):
    quote = '"{}"'.format
    lines = [" ".join(["name", *map(quote, series)])]
    lines += [" ".join([quote(name)] + ["NaN" if v is None else f"{v:.6g}" for v in values]) for name, values in rows]
    above = "".join(f'\nset label {i + 1} "{text}" at first {i},first {rows[i][1][0]:.6g} center offset 0,0.7'
                    for i, text in enumerate(texts))
    script = GNUPLOT.format(png=png, title=title, label=label, data="\n".join(lines), last=1 + len(series), width=width,
                            scale=f"set logscale y\nset yrange [{low}:*]" if low else "set yrange [0:*]",
                            key="set key off" + above if texts else "set key outside right top",
                            rotation="rotate by -25\nset rmargin 14" if slanted else "")
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def draw_with_matplotlib(png, title, label, series, rows, low, texts, width, slanted):
    import matplotlib  # a machine may have neither this nor gnuplot
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(width / 100, 5.2), layout="constrained")
    bar = 0.8 / len(series)
    for i, name in enumerate(series):
        places = [k - 0.4 + bar * (i + 0.5) for k in range(len(rows))]
        axes.bar(places, [values[i] or float("nan") for _, values in rows], bar * 0.95, label=name)
    for i, text in enumerate(texts):
        axes.annotate(text, (i, rows[i][1][0]), ha="center", xytext=(0, 3), textcoords="offset points", fontsize=9)
    axes.set(title=title, ylabel=label)
    axes.set_xticks(range(len(rows)), [name for name, _ in rows], rotation=-25 if slanted else 0,
                    ha="left" if slanted else "center")
    axes.grid(axis="y", color="#dddddd")
    axes.set_axisbelow(True)
    if low:
        axes.set_yscale("log")
        axes.set_ylim(bottom=low)
    if not texts:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    figure.savefig(png, dpi=100)
    pyplot.close(figure)


def drawer(png, with_gnuplot, with_matplotlib):
    """Whichever of the two can draw here; None, which is said, if none can."""
    if shutil.which("gnuplot"):
        return with_gnuplot
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print(f"{png} is not drawn: there is neither gnuplot nor matplotlib", file=sys.stderr)
        return None
    return with_matplotlib


def bars(png, title, label, series, rows, log=False, texts=()):
    """
    Groups of bars, drawn with gnuplot, else matplotlib, else not at all, which is said.

    series: names of the bars of a group. rows: [(name of the group, [a value or None for each of the series])].
    log: a logarithmic axis. texts: of a single series, what to write above each bar, instead of a legend.
    """
    rows = [(name, values) for name, values in rows if any(values)]
    if not rows:
        return
    used = [i for i in range(len(series)) if any(values[i] for _, values in rows)]
    series, rows = [series[i] for i in used], [(name, [values[i] for i in used]) for name, values in rows]
    draw = drawer(png, draw_with_gnuplot, draw_with_matplotlib)
    if draw is None:
        return
    low = min(value for _, values in rows for value in values if value) / 2 if log else None
    slanted = len(rows) > 2 and sum(len(name) + 3 for name, _ in rows) > 100
    draw(png, title, label, series, rows, low, list(texts), 1100 if len(rows) < 9 else 1400, slanted)
    print(png)


GNUPLOT_LINES = """set terminal pngcairo size 1100,520 noenhanced font "sans,11"
set output "{png}"
set title "{title}"
set xlabel "{across}"
set ylabel "{label}"
{scale}
set format y "%g"
set grid ytics lc rgb "#dddddd"
set key outside right top
set border 3
set tics nomirror out
{data}
plot {plots}
"""


def lines_with_gnuplot(png, title, across, label, series, log, wide):
    data = "\n".join(f"$d{i} << END\n" + "\n".join(f"{x:.6g} {y:.6g}" for x, y in points) + "\nEND"
                     for i, (_, points) in enumerate(series))
    plots = ", ".join(f'$d{i} with linespoints pt 7 ps 0.5 title "{name}"' for i, (name, _) in enumerate(series))
    script = GNUPLOT_LINES.format(png=png, title=title, across=across, label=label, data=data, plots=plots,
                                  scale=("set logscale y" if log else "set yrange [0:*]") + ("\nset logscale x" if wide else ""))
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def lines_with_matplotlib(png, title, across, label, series, log, wide):
    import matplotlib  # a machine may have neither this nor gnuplot
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(11, 5.2), layout="constrained")
    for name, points in series:
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, label=name)
    axes.set(title=title, xlabel=across, ylabel=label)
    axes.grid(axis="y", color="#dddddd")
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if wide:
        axes.set_xscale("log")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    figure.savefig(png, dpi=100)
    pyplot.close(figure)


def lines(png, title, across, label, series, log=False, wide=False):
    """
    Lines, drawn with gnuplot, else matplotlib, else not at all, which is said.

    series: [(name, [(x, y)])]; those without points are left out. across, label: of the axes. log: a logarithmic axis of y; wide: of x.
    """
    series = [(name, sorted(points)) for name, points in series if points]
    draw = drawer(png, lines_with_gnuplot, lines_with_matplotlib) if series else None
    if draw is not None:
        draw(png, title, across, label, series, log, wide)
        print(png)


GNUPLOT_BOXES = """set terminal pngcairo size 1400,560 noenhanced font "sans,11"
set output "{png}"
set title "{title}"
set xlabel "box: quartiles and median; whiskers: minimum and 99.9 %; cross: maximum"
set ylabel "{label}"
set logscale y
set format y "%g"
set grid ytics lc rgb "#dddddd"
set key outside right top
set border 3
set tics nomirror out
set xtics ({names})
set xrange [-0.6:{last}]
set style fill solid 0.5 border
{data}
plot {plots}
"""


def boxes_with_gnuplot(png, title, label, series, rows):
    width = 0.8 / len(series)
    data, plots = "", []
    for i, name in enumerate(series):
        data += f"$d{i} << END\n"
        for k, (_, values) in enumerate(rows):
            if values[i]:
                data += f"{k - 0.4 + width * (i + 0.5):.4f} " + " ".join("NaN" if v is None else f"{v:.6g}" for v in values[i]) + "\n"
        data += "END\n"
        plots += [f'$d{i} using 1:3:2:6:5:({width * 0.8:.4f}) with candlesticks lc {i + 1} lw 1.5 title "{name}" whiskerbars 0.6',
                  f"$d{i} using 1:4:4:4:4:({width * 0.8:.4f}) with candlesticks lc rgb 'black' lw 2 notitle",
                  f"$d{i} using 1:7 with points pt 2 lc {i + 1} notitle"]
    names = ", ".join(f'"{name}" {k}' for k, (name, _) in enumerate(rows))
    script = GNUPLOT_BOXES.format(png=png, title=title, label=label, names=names, last=len(rows) - 0.4, data=data, plots=", ".join(plots))
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def boxes_with_matplotlib(png, title, label, series, rows):
    import matplotlib  # a machine may have neither this nor gnuplot
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(14, 5.6), layout="constrained")
    width, shown = 0.8 / len(series), []
    for i in range(len(series)):
        found = [(k, values[i]) for k, (_, values) in enumerate(rows) if values[i]]
        stats = [{"whislo": low, "q1": first, "med": float("nan") if median is None else median, "q3": third, "whishi": high,
                  "fliers": [] if most is None else [most]} for _, (low, first, median, third, high, most) in found]
        drawn = axes.bxp(stats, positions=[k - 0.4 + width * (i + 0.5) for k, _ in found], widths=width * 0.8, patch_artist=True,
                         boxprops={"facecolor": f"C{i}"}, medianprops={"color": "black"}, flierprops={"marker": "x"})
        shown.append(drawn["boxes"][0])
    axes.set(title=title, ylabel=label, xlabel="box: quartiles and median; whiskers: minimum and 99.9 %; cross: maximum", yscale="log")
    axes.set_xticks(range(len(rows)), [name for name, _ in rows])
    axes.grid(axis="y", color="#dddddd")
    axes.legend(shown, series, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    figure.savefig(png, dpi=100)
    pyplot.close(figure)


def whole_box(box):
    """What a box lacks and needs: quartiles have whiskers of no length, and a median alone is a box of no height."""
    if box is None:
        return None
    low, first, median, third, high, most = box
    if first is None or third is None:
        first = third = median
        median = None
    return [first if low is None else low, first, median, third, third if high is None else high, most]


def boxes(png, title, label, series, rows):
    """
    Groups of boxes on a logarithmic axis, drawn with gnuplot, else matplotlib, else not at all, which is said.

    series: names of the boxes of a group. rows: [(name of the group, [a box or None for each of the series])]. A box is [minimum, 25 %,
    median, 75 %, 99.9 %, maximum]; all but both quartiles may be None, or all but the median.
    """
    rows = [(name, [whole_box(box) for box in values]) for name, values in rows if any(values)]
    used = [i for i in range(len(series)) if any(values[i] for _, values in rows)]
    draw = drawer(png, boxes_with_gnuplot, boxes_with_matplotlib) if rows else None
    if draw is not None:
        draw(png, title, label, [series[i] for i in used], [(name, [values[i] for i in used]) for name, values in rows])
        print(png)
