"""Compares our Prophet with Python's `prophet`. scripts/prophet-parity runs it and makes the environment that it needs.

Both get the same values and settings. Their predictions are compared over the history and over a horizon; differences
are shares of the series' standard deviation. Python fits twice: by default with Stan's L-BFGS, and from there on with
Stan's Newton method, which it keeps for short series and as a fallback. On a trend with changepoints L-BFGS stops
early, at a kink of the posterior; Newton's method goes on.

Our search gets the same input as Stan. Our code evaluates the logarithm of the posterior at the end of each search; it
must equal what Stan prints. The higher one is the better fit.
"""

import argparse
import csv
import datetime
import json
import logging
import math
import pathlib
import random
import resource
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd

logging.disable(logging.ERROR)
warnings.filterwarnings("ignore")

from prophet import Prophet  # noqa: E402: its messages at import are silenced above

# Root mean squares, in shares of the standard deviation of the series. The default may be further away where it has
# stopped early: where its log posterior is lower than ours by more than EARLY. There Newton's method decides.
MOST_DEFAULT = 0.01
MOST_NEWTON = 0.002
EARLY = 0.5
# Our log posterior may be lower than either by at most this.
MOST_BEHIND = 0.001
# Relative rounding error between two programs for one formula.
MOST_UNLIKE = 1e-6

PROGRAM = "target/release/examples/prophet_fit"
WORK = pathlib.Path("target/prophet-parity")
WINDOW = 3600


def utc(text):
    return int(datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc).timestamp())


def read(path, step, horizon, window=WINDOW):
    """The last values of a file at equal steps; missing ones are gaps."""
    with open(path, newline="") as file:
        rows = [row for row in list(csv.reader(file))[1:] if len(row) > 1 and row[1]]
    known = {round(utc(row[0]) / step): float(row[1]) for row in rows}
    first, last = min(known), max(known)
    values = [known.get(index) for index in range(first, last + 1)]
    if window:
        first += max(0, len(values) - window - horizon)
        values = values[-window - horizon :]
    return {"start": first * step, "step": step, "values": values[:-horizon], "horizon": horizon}


def minute_cycle():
    """Per-second load: a burst of ten seconds each minute, a level that bends, and noise."""
    draw = random.Random(1)
    values = []
    for second in range(WINDOW):
        burst = 400 if second % 60 < 10 else 0
        level = 100 + 0.05 * max(0, second - 2000)
        values.append(max(0.0, level + burst + draw.gauss(0, 30)))
    return {"start": 1_780_000_000, "step": 1, "values": values, "horizon": 120}


def cases(data):
    flat = {"growth": "flat", "mode": "additive", "seasons": [], "calendar": False}
    linear = flat | {"growth": "linear"}
    multiplicative = linear | {"mode": "multiplicative"}
    minute = minute_cycle()
    yield "minute cycle, flat", minute | flat | {"seasons": [60]}
    yield "minute cycle, linear", minute | linear | {"seasons": [60]}
    yield "minute cycle, multiplicative", minute | multiplicative | {"seasons": [60]}
    if data is None:
        return
    daily = read(data / "peyton_manning.csv", 86400, 365, window=None)
    yield "page views, linear", daily | linear | {"calendar": True}
    yield "page views, multiplicative", daily | multiplicative | {"calendar": True}
    for name, file in [("load balancer", "elb_request_count.csv"), ("backbone", "isp_eu_5m.csv")]:
        series = read(data / file, 300, 288) | {"seasons": [288]}
        yield f"{name}, flat", flat | series
        yield f"{name}, linear", linear | series
        yield f"{name}, multiplicative", multiplicative | series


def ours(command, content):
    file = WORK / f"{command}.json"
    file.write_text(json.dumps(content))
    done = subprocess.run([PROGRAM, command, str(file)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def theirs(case, cycles, **options):
    """Python's fit: its predictions, the input of Stan and its output."""
    times = case["start"] + case["step"] * np.arange(len(case["values"]) + case["horizon"])
    times = pd.Series(pd.to_datetime(times, unit="s"))
    # Our series are in single precision.
    values = np.array([math.nan if value is None else value for value in case["values"]], dtype=np.float32)
    calendar = "auto" if case["calendar"] else False
    model = Prophet(
        growth=case["growth"],
        seasonality_mode=case["mode"],
        yearly_seasonality=calendar,
        weekly_seasonality=calendar,
        daily_seasonality=calendar,
        uncertainty_samples=0,
    )
    for name, seconds, harmonics in cycles:
        model.add_seasonality(name, seconds / 86400, harmonics)
    backend = model.stan_backend
    stan = {}
    prepare = backend.prepare_data

    def keep(init, data):
        stan["init"], stan["data"] = prepare(init, data)
        return stan["init"], stan["data"]

    backend.prepare_data = keep
    before = children_seconds()
    model.fit(pd.DataFrame({"ds": times[: len(values)], "y": values.astype(np.float64)}), **options)
    seconds = children_seconds() - before
    found = {name: np.ravel(value) for name, value in model.params.items()}
    stan["params"] = {name: float(found[name][0]) for name in ["k", "m", "sigma_obs"]}
    stan["params"] |= {name: found[name].tolist() for name in ["delta", "beta"]}
    return {
        "yhat": model.predict(pd.DataFrame({"ds": times}))["yhat"].to_numpy(),
        "stan": stan,
        "printed": backend.stan_fit.optimized_params_dict["lp__"],
        "seconds": seconds,
    }


def row(name, fitter, case, fit, other, most):
    """Prints a row; returns what is beyond the tolerances."""
    known = np.array([value for value in case["values"] if value is not None])
    count = len(case["values"])
    expected = {"history": other["yhat"][:count], "horizon": other["yhat"][count:]}
    apart = {part: (np.array(fit[part]["yhat"]) - expected[part]) / known.std() for part in expected}
    rms = {part: float(np.sqrt(np.mean(apart[part] ** 2))) for part in apart}
    ends = ours("posterior", other["stan"])
    ahead = ends["ours"] - ends["theirs"]
    early = ahead > EARLY
    print(
        f"{name:<30}{fitter:<9}{len(known):>7}"
        + "".join(f"{rms[part]:>9.3%}{np.abs(apart[part]).max():>9.3%}" for part in apart)
        + f"{ends['ours']:>12.3f}{ends['theirs']:>12.3f}{ahead:>+10.4f}"
        + f"{fit['seconds'] * 1000:>9.0f}{other['seconds'] * 1000:>9.0f}"
        + ("  early" if early else ""),
        flush=True,
    )
    unlike = abs(ends["theirs"] - other["printed"]) / abs(other["printed"])
    checks = [(rms[part] <= most or early and fitter == "default", f"{rms[part]:.3%} over the {part}") for part in rms]
    checks += [
        (ahead >= -MOST_BEHIND, f"our posterior is lower by {-ahead:.4f}"),
        (unlike <= MOST_UNLIKE, f"at Stan's end our posterior is {ends['theirs']}, Stan's is {other['printed']}"),
    ]
    return [f"{name}, {fitter}: {text}" for met, text in checks if not met]


def compare(name, case):
    fit = ours("fit", case)
    default = theirs(case, fit["cycles"])
    beyond = row(name, "default", case, fit, default, MOST_DEFAULT)
    end = {parameter: np.array(value) for parameter, value in default["stan"]["params"].items()}
    newton = theirs(case, fit["cycles"], init=end, algorithm="Newton")
    newton["stan"]["init"] = default["stan"]["init"]
    return beyond + row(name, "Newton", case, fit, newton, MOST_NEWTON)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path)
    data = parser.parse_args().data
    print("differences in shares of the standard deviation; log posterior by our code; milliseconds of processor time")
    print(f"{'':<46}{'history':>18}{'horizon':>18}{'log posterior':>24}{'':>10}{'fit':>18}")
    heads = "".join(f"{head:>9}" for head in ["RMS", "most", "RMS", "most"])
    tail = f"{'ours':>12}{'Python':>12}{'ahead':>10}{'ours':>9}{'Python':>9}"
    print(f"{'series':<30}{'Python':<9}{'points':>7}{heads}{tail}", flush=True)
    beyond = [text for name, case in cases(data) for text in compare(name, case)]
    for text in beyond:
        print(f"beyond the tolerance: {text}")
    sys.exit(1 if beyond else 0)


if __name__ == "__main__":
    main()
