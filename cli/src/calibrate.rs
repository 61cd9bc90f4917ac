//! `orrery calibrate`: what the engine's work costs on this machine, as a system profile.

use std::time::Duration;

use ::validate::calibrate::{self, CalibrateError, Calibrated, Fit, Measurements, Options};
use ::validate::local::{self, Place};
use ::validate::probe;

use crate::args;
use crate::exit::{Code, Failure, with_causes};
use crate::steps::Steps;

pub fn run(args: &args::Calibrate) -> Result<(), Failure> {
    let measured = match &args.from {
        Some(path) => read(path)?,
        None => measure(args)?,
    };
    // First of all, as it took minutes.
    if args.from.is_none() {
        let text = serde_json::to_string_pretty(&measured).map_err(Failure::unexpected)?;
        let kept = probe::Document { path: "calibration.json".into(), text };
        crate::probe::write(&args.out, &[kept])?;
    }
    let found = calibrate::prices(&measured).map_err(failure)?;
    let systems = calibrate::systems(&measured, &found, &args.name).map_err(Failure::unexpected)?;
    crate::probe::write(&args.out, &systems)?;
    if args.json {
        println!("{}", json(&measured, &found));
        return Ok(());
    }
    show("server", &found.server);
    show("loading client", &found.loader);
    if let Some(pace) = found.pace {
        println!(
            "from moment to moment CPU goes with the power {:.2} of what a piece of the watch's work takes",
            pace.power
        );
    }
    if let Some(control) = found.pace.and_then(|pace| pace.control) {
        let [server, loader] = control.usual;
        println!(
            "of the control a second of the node's CPU did {server:.0} operations, of its client's {loader:.0}; CPU goes \
             with the power {:.2} of what one takes",
            control.power
        );
    }
    println!("profiles `{}` and `{}-bench` in {}", args.name, args.name, args.out.display());
    Ok(())
}

fn read(path: &std::path::Path) -> Result<Measurements, Failure> {
    let refuse = |cause: String| {
        Failure::with_help(
            Code::Usage,
            format!("--from {}: {cause}", path.display()),
            "name the calibration.json that an `orrery calibrate` has left",
        )
    };
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))
}

fn measure(args: &args::Calibrate) -> Result<Measurements, Failure> {
    let cpus = if args.cpus.is_empty() { probe::host::usable_cpus() } else { args.cpus.clone() };
    let of = |cpu: Option<&usize>| cpu.copied().filter(|_| cpus.len() > 1);
    let options = Options {
        place: Place {
            program: local::this_program().map_err(Failure::unexpected)?,
            server_cpu: of(cpus.first()),
            loader_cpu: of(cpus.last()),
            folder: args.data.clone(),
        },
        mix: Duration::from_millis(if args.quick { 150 } else { 3_000 }),
        warmup: Duration::from_millis(if args.quick { 50 } else { 1_000 }),
        rounds: if args.quick { 1 } else { args.rounds.get() },
        data: if args.quick { 0.02 } else { 1.0 },
    };
    let steps = Steps::begin();
    calibrate::run(&options, &|what, part| steps.tell(what, part)).map_err(failure)
}

fn failure(error: CalibrateError) -> Failure {
    let help = match error {
        CalibrateError::Fit(_) => "measure again without --quick, on a machine that does nothing else",
        _ => "the node's own log is above if it ended; --data names a folder with a few GB of room",
    };
    Failure::with_help(Code::Unexpected, with_causes(&error), help)
}

fn show(side: &str, fit: &Fit) {
    println!(
        "{side}: {} mixes, median error {:.1} %, {:.1} % of a mix left out; {:.2} times the prior costs",
        fit.residuals.len(),
        fit.median_error(false) * 100.0,
        fit.median_error(true) * 100.0,
        fit.scale
    );
    println!("  {:20} {:>10} {:>10} {:>7} {:>7}", "work", "us a time", "ns a byte", "+-", "share");
    for (kind, found) in &fit.prices {
        let note = match (found.is_determined, found.tied.is_empty()) {
            (false, _) => "prior's, too little of it to tell".to_string(),
            (true, true) => String::new(),
            (true, false) => format!("in prior proportion to {}", found.tied.join(", ")),
        };
        let bound = match found.is_determined {
            true => format!("{:.0} %", (found.uncertainty * 100.0).min(999.0)),
            false => "-".to_string(),
        };
        println!(
            "  {kind:20} {:>10.3} {:>10.3} {bound:>7} {:>5.1} % {note}",
            found.price.fixed_ns / 1e3,
            found.price.ns_per_byte,
            found.share * 100.0
        );
    }
    println!("  {:50} {:>9} {:>8} {:>9}", "mix", "CPU, ms", "error", "left out");
    for residual in &fit.residuals {
        println!(
            "  {:50} {:>9.0} {:>+6.1} % {:>+7.1} %",
            residual.mix,
            residual.cpu_ns / 1e6,
            residual.error * 100.0,
            residual.error_left_out * 100.0
        );
    }
}

fn json(measured: &Measurements, found: &Calibrated) -> serde_json::Value {
    let side = |fit: &Fit| {
        let prices: serde_json::Map<String, serde_json::Value> = fit
            .prices
            .iter()
            .map(|(kind, found)| {
                let value = serde_json::json!({
                    "fixed_ns": found.price.fixed_ns,
                    "ns_per_byte": found.price.ns_per_byte,
                    "uncertainty": found.uncertainty,
                    "determined": found.is_determined,
                    "tied": found.tied,
                    "share": found.share,
                });
                (kind.clone(), value)
            })
            .collect();
        let mixes: Vec<serde_json::Value> = fit
            .residuals
            .iter()
            .map(|r| serde_json::json!({"mix": r.mix, "cpu_ns": r.cpu_ns, "error": r.error, "left_out": r.error_left_out}))
            .collect();
        serde_json::json!({"scale": fit.scale, "median_error": fit.median_error(false),
            "median_error_left_out": fit.median_error(true), "prices": prices, "mixes": mixes})
    };
    let control = |of: calibrate::ControlPace| serde_json::json!({"operations_per_s": of.usual, "power": of.power});
    let pace = found.pace.map(|pace| serde_json::json!({"power": pace.power, "control": pace.control.map(control)}));
    serde_json::json!({"date": measured.date, "pace": pace, "server": side(&found.server),
        "loader": side(&found.loader), "rates": measured.rates})
}
