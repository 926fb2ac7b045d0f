"""The tables and the targets, as Markdown."""
from statistics import median

from contenders import DRAIN, GO, ROWS, SET, TEXTBOOK, effectd_name, feed_name, floor_name, sql_effect_name

MAIN, MAIN_SET = effectd_name(2, 100, ROWS), effectd_name(2, 100, SET)
FLOOR, FLOOR_SET = floor_name(2, ROWS), floor_name(2, SET)
WITHOUT_C = sql_effect_name(2, 100)
FEED = feed_name(2, 100)
RSS_MOST_MIB, P99_MOST_MS = 32, 10


class Results:
    """What was measured: a list of Throughput for each contender's name, by round; Latency by name; memory."""

    def __init__(self):
        self.rounds, self.latency, self.memory_mib = {}, {}, None

    def rate(self, name):
        return self._median(name, lambda one: one.rate)

    def ratio(self, name, other, figure=lambda one: one.rate):
        """The median of the rounds' ratios: what changes from round to round falls out. None without figures."""
        pairs = list(zip(self.rounds.get(name, []), self.rounds.get(other, [])))
        return median(figure(one) / figure(two) for one, two in pairs) if pairs else None

    def cpu_ratio(self, name, other):
        return self.ratio(name, other, lambda one: one.cpu_us)

    def _median(self, name, figure):
        return median(map(figure, self.rounds[name]))


def throughput_table(results, contenders):
    head = ["", "deliveries/s", "rounds", "x Python", "x Go", "x floor", "CPU us", "CPU x floor", "servers' CPU us",
            "batch", "peak MiB"]
    rows = []
    for one in contenders:
        if one.name not in results.rounds:
            continue
        runs = results.rounds[one.name]
        own_floor = floor_name(min(one.connections, 2), one.kind) if one.database else None
        rows.append([one.name, f"{results.rate(one.name):,.0f}",
                     f"{min(run.rate for run in runs):,.0f}-{max(run.rate for run in runs):,.0f}",
                     _times(results.ratio(one.name, TEXTBOOK)), _times(results.ratio(one.name, GO)),
                     _times(results.ratio(one.name, own_floor)),
                     f"{median(run.cpu_us for run in runs):.1f}", _times(results.cpu_ratio(one.name, own_floor)),
                     f"{median(run.server_cpu_us for run in runs):.0f}",
                     f"{median(run.batch for run in runs):.0f}" if one.database else "-",
                     f"{max(run.peak_mib for run in runs):.1f}"])
    return _table(head, rows)


def latency_table(results, rate):
    head = [f"publish to commit at {rate:,}/s", "p50 ms", "p99 ms", "most ms"]
    return _table(head, [[name, f"{one.p50_ms:.2f}", f"{one.p99_ms:.2f}", f"{one.most_ms:.1f}"]
                         for name, one in results.latency.items()])


def targets(results):
    """Lines that say which target was reached; nothing fails by one."""
    ratio, cpu_ratio = results.ratio, results.cpu_ratio
    goals = [
        (f"{MAIN}: 0.9 of the {FLOOR}", ratio(MAIN, FLOOR), 0.9),
        (f"{MAIN}: 20 times {TEXTBOOK}", ratio(MAIN, TEXTBOOK), 20),
        (f"{MAIN}: 5 times {GO}", ratio(MAIN, GO), 5),
        (f"{MAIN_SET}: more than the {FLOOR}", ratio(MAIN_SET, FLOOR), 1),
        (f"{WITHOUT_C}: 0.8 of {MAIN}", ratio(WITHOUT_C, MAIN), 0.8),
        (f"{FEED}: as fast as {MAIN}", ratio(FEED, MAIN), 1),
    ]
    limits = [
        (f"{MAIN}: CPU 1.5 of the {FLOOR}, at most", cpu_ratio(MAIN, FLOOR), 1.5),
        (f"{MAIN_SET}: CPU 1.5 of the {FLOOR_SET}, at most", cpu_ratio(MAIN_SET, FLOOR_SET), 1.5),
        (f"three consumers in one process: under {RSS_MOST_MIB} MiB", results.memory_mib, RSS_MOST_MIB),
        (f"{MAIN}: p99 under {P99_MOST_MS} ms", results.latency[MAIN].p99_ms if MAIN in results.latency else None,
         P99_MOST_MS),
    ]
    rows = [[name, _figure(value), _verdict(value, lambda v: v >= goal)] for name, value, goal in goals]
    rows += [[name, _figure(value), _verdict(value, lambda v: v <= limit)] for name, value, limit in limits]
    return _table(["target", "figure", ""], rows)


def as_json(results, lines, arguments):
    return {"machine": lines, "arguments": arguments, "memory_mib": results.memory_mib,
            "throughput": {name: [{**vars(run), "rate": run.rate} for run in runs]
                           for name, runs in results.rounds.items()},
            "latency": {name: vars(one) for name, one in results.latency.items()}}


def _table(head, rows):
    """Aligned Markdown: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    line = lambda cells: "| " + " | ".join([cells[0].ljust(widths[0]),
                                            *[cell.rjust(width) for cell, width in zip(cells[1:], widths[1:])]]) + " |"
    rule = "|" + "|".join(["-" * (widths[0] + 2), *["-" * (width + 1) + ":" for width in widths[1:]]]) + "|"
    return "\n".join([line(head), rule, *map(line, rows)])


def _times(ratio):
    return "-" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"


def _figure(value):
    return "-" if value is None else f"{value:.2f}"


def _verdict(value, holds):
    return "not measured" if value is None else "reached" if holds(value) else "not reached"
