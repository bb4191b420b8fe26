//! Prophet's side of `make parity`: fits a series, or evaluates the posterior on data that Python's `prophet` has
//! prepared. Prints JSON.
//!
//! ```text
//! prophet_fit fit SERIES.json        {start, step, values, horizon, growth, mode, seasons, calendar}
//! prophet_fit posterior STAN.json    {data, init, params}, as they go to Stan and come from it
//! ```

#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "its output is for a script")]

use anyhow::{Context, Result, bail};
use augurs_prophet::{Optimizer, PositiveFloat, TrendIndicator, optimizer};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tidegate_forecast::prophet::{Components, Growth, MapOptimizer, Mode, Params, Posterior, Settings};
use tidegate_forecast::{History, Model, ProphetModel, Season};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, file] = arguments.as_slice() else { bail!("usage: prophet_fit (fit|posterior) FILE.json") };
    let input = serde_json::from_str(&std::fs::read_to_string(file).with_context(|| file.clone())?)?;
    let output = match command.as_str() {
        "fit" => fit(&input)?,
        "posterior" => posterior(&input)?,
        other => bail!("unknown command {other}"),
    };
    println!("{output}");
    Ok(())
}

/// Learns from a series, and prints the parts of its values and of those of the horizon.
fn fit(input: &Value) -> Result<Value> {
    let values: Vec<f32> = list(&input["values"])?.iter().map(|value| value.unwrap_or(f64::NAN) as f32).collect();
    let (start, step) = (whole(&input["start"])?, u32::try_from(whole(&input["step"])?)?);
    let horizon = usize::try_from(whole(&input["horizon"])?)?;
    let history = History { start, step, values: &values };
    let periods = list(&input["seasons"])?.into_iter().flatten();
    let seasons: Vec<Season> = periods.map(|period| Season { period, strength: 1.0 }).collect();
    let settings = Settings {
        growth: if input["growth"] == "flat" { Growth::Flat } else { Growth::Linear },
        mode: if input["mode"] == "multiplicative" { Mode::Multiplicative } else { Mode::Additive },
        window: values.len(),
        calendar: input["calendar"] == true,
        ..Settings::default()
    };
    let mut model = ProphetModel::new(settings);
    let before = cpu_seconds();
    model.learn(history, &seasons)?;
    let seconds = cpu_seconds() - before;
    let cycles = model.cycles().iter().map(|cycle| json!([cycle.name, cycle.seconds, cycle.harmonics.get()]));
    let parts =
        |start, count| model.components(start, step, count).map(|parts| reported(&parts)).context("nothing learnt");
    Ok(json!({
        "cycles": cycles.collect::<Vec<Value>>(),
        "seconds": seconds,
        "history": parts(start, values.len())?,
        "horizon": parts(history.end(), horizon)?,
    }))
}

fn reported(parts: &Components) -> Value {
    let values: Vec<f64> = (0..parts.trend.len()).map(|index| parts.value(index, 0.0)).collect();
    json!({ "yhat": values, "trend": parts.trend, "cycles": parts.cycles })
}

/// The density at Stan's parameters, and where our own search ends on the same data.
fn posterior(input: &Value) -> Result<Value> {
    let data = data(&input["data"])?;
    let posterior = Posterior::new(&data);
    let params = params(&input["params"])?;
    let init = self::params(&input["init"])?;
    let init = optimizer::InitialParams {
        k: init.k,
        m: init.m,
        delta: init.delta,
        beta: init.beta,
        sigma_obs: PositiveFloat::try_new(init.sigma)?,
    };
    let found = MapOptimizer.optimize(&init, &data, &Default::default()).map_err(|error| anyhow::anyhow!("{error}"))?;
    let ours = Params { k: found.k, m: found.m, sigma: *found.sigma_obs, delta: found.delta, beta: found.beta };
    Ok(json!({
        "theirs": posterior.log_density(&params),
        "ours": posterior.log_density(&ours),
        "sigma": ours.sigma,
    }))
}

fn data(input: &Value) -> Result<optimizer::Data> {
    let whole_list = |value| anyhow::Ok(numbers(value)?.iter().map(|number| *number as i32).collect());
    let rows = input["X"].as_array().context("a matrix")?;
    Ok(optimizer::Data {
        T: whole(&input["T"])? as i32,
        y: numbers(&input["y"])?,
        t: numbers(&input["t"])?,
        cap: numbers(&input["cap"])?,
        S: whole(&input["S"])? as i32,
        t_change: numbers(&input["t_change"])?,
        trend_indicator: match whole(&input["trend_indicator"])? {
            0 => TrendIndicator::Linear,
            1 => TrendIndicator::Logistic,
            _ => TrendIndicator::Flat,
        },
        K: whole(&input["K"])? as i32,
        s_a: whole_list(&input["s_a"])?,
        s_m: whole_list(&input["s_m"])?,
        X: rows.iter().map(numbers).collect::<Result<Vec<_>>>()?.concat(),
        sigmas: numbers(&input["sigmas"])?.into_iter().map(PositiveFloat::try_new).collect::<Result<_, _>>()?,
        tau: PositiveFloat::try_new(input["tau"].as_f64().context("a number")?)?,
    })
}

fn params(input: &Value) -> Result<Params> {
    let number = |name: &str| input[name].as_f64().context("a number");
    Ok(Params {
        k: number("k")?,
        m: number("m")?,
        sigma: number("sigma_obs")?,
        delta: numbers(&input["delta"])?,
        beta: numbers(&input["beta"])?,
    })
}

fn list(value: &Value) -> Result<Vec<Option<f64>>> {
    Ok(value.as_array().context("a list")?.iter().map(Value::as_f64).collect())
}

fn numbers(value: &Value) -> Result<Vec<f64>> {
    list(value)?.into_iter().collect::<Option<_>>().context("a list of numbers")
}

fn whole(value: &Value) -> Result<i64> {
    value.as_i64().context("a whole number")
}

fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
