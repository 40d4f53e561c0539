#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what tests/gpu/shredder_speed measured on a machine with a GPU.

shredder_plot.py FILE.json FOLDER   FOLDER/shredder-gpu-steps.png: the steps of the FAST'12 document beside ours, with
                                    speed-ups over the host-only version with threads
                                    FOLDER/shredder-gpu-vram.png: data in the GPU's memory, with the targets

Exit status: 0; 1 when something could not be read or drawn.
"""
import json
import pathlib
import subprocess
import sys

STEPS = "rabin from host memory, the document's steps"
HOST = "host only, 16 threads"


def bars(title, rows, png):
    """A gnuplot script: a bar for each (name, GB/s, text above)."""
    top = max(value for _, value, _ in rows) * 1.25
    lines = ["set terminal pngcairo size 900,520", f'set output "{png}"', f'set title "{title}" noenhanced',
             'set ylabel "GB/s"', f"set yrange [0:{top}]", "set boxwidth 0.6", "set style fill solid 0.7",
             "set grid y", "unset key", "set xtics noenhanced", "$rows << EOD"]
    lines += [f'{i} {value} "{name}" "{text}"' for i, (name, value, text) in enumerate(rows)]
    lines.append("EOD")
    lines.append("plot $rows using 1:2:xtic(3) with boxes, $rows using 1:2:4 with labels offset 0,0.8")
    return "\n".join(lines)


def draw(script):
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def steps_rows(entry):
    rates = dict(entry["peers"])
    rates["this engine"] = entry["ours"]
    return [(name, rate, f"{rate:.3g} GB/s, {rate / rates[HOST]:.1f}x") for name, rate in rates.items()]


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    entries = {entry["metric"]: entry for entry in json.loads(pathlib.Path(sys.argv[1]).read_text())}
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    draw(bars("Rabin chunking of data in host memory (speed-up over threads on the host)", steps_rows(entries[STEPS]),
              folder / "shredder-gpu-steps.png"))
    vram = [(metric.replace(", data in VRAM", "").replace(" of every chunk", "").replace("minimum and maximum", "min, max"),
             entry["ours"],
             f"{entry['ours']:.0f}" + (f" (target {entry['target']['at_least']})" if entry["target"] else ""))
            for metric, entry in entries.items() if metric.endswith("data in VRAM")]
    basic = entries["rabin kernel alone"]["peers"]["basic"]
    vram.insert(0, ("document's basic kernel", basic, f"{basic:.0f}"))
    draw(bars("Data in the GPU's memory", vram, folder / "shredder-gpu-vram.png"))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, KeyError, ValueError, subprocess.CalledProcessError) as error:
        print(f"shredder_plot.py: {error}", file=sys.stderr)
        sys.exit(1)
