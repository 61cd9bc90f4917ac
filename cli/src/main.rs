//! `orrery`: the one binary.
//!
//! Results go to stdout, progress and logs to stderr. The exit code says what happened: see [`exit::Code`].

mod args;
mod exit;
mod serve;
mod signal;

use clap::Parser;

use args::{Arguments, Command};

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(arguments.log.as_str())),
        )
        .with_writer(std::io::stderr)
        .init();
    let result = match arguments.command {
        Command::Serve(serve) => serve::run(&serve),
    };
    match result {
        Ok(()) => exit::Code::Ok.into(),
        Err(failure) => {
            eprintln!("{:?}", miette::Report::new_boxed(failure.report));
            failure.code.into()
        }
    }
}
