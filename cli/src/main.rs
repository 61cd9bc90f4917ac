//! `orrery`: the one binary.
//!
//! Results go to stdout, progress and logs to stderr. The exit code says what happened: see [`exit::Code`].

#![allow(clippy::disallowed_methods, reason = "the command line stands outside of every simulated world")]

mod allocator;
mod args;
mod bench;
mod calibrate;
mod config_file;
mod exit;
mod io_properties;
mod list;
mod log;
mod memory;
mod nodetool;
mod probe;
mod run;
mod sensitivity;
mod serve;
mod signal;
mod steps;
mod validate;

use clap::{CommandFactory, Parser};

use args::{Arguments, Command};

fn main() -> std::process::ExitCode {
    allocator::keep_freed_memory();
    let arguments = Arguments::parse();
    log::init(&arguments.log, arguments.log_format);
    if !matches!(arguments.command, Command::Serve(_)) {
        signal::end_with_the_reader();
    }
    let result = match arguments.command {
        Command::Run(run) => run::run(&run),
        Command::Sensitivity(sensitivity) => sensitivity::run(&sensitivity),
        Command::Check(check) => run::check(&check),
        Command::List(list) => list::list(&list),
        Command::Validate(validate) => validate::run(&validate),
        Command::Serve(serve) => serve::run(&serve),
        Command::Nodetool(nodetool) => nodetool::run(&nodetool),
        Command::Bench(bench) => bench::run(&bench),
        Command::Probe(probe) => probe::run(&probe),
        Command::Calibrate(calibrate) => calibrate::run(&calibrate),
        Command::Schema(_) => {
            print!("{}", scenarios::model::json_schema());
            Ok(())
        }
        Command::Completions(completions) => {
            clap_complete::generate(completions.shell, &mut Arguments::command(), "orrery", &mut std::io::stdout());
            Ok(())
        }
    };
    match result {
        Ok(()) => exit::Code::Ok.into(),
        Err(failure) => {
            eprintln!("{:?}", miette::Report::new_boxed(failure.report));
            failure.code.into()
        }
    }
}
