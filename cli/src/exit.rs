//! Exit codes: what scripts may rely on.

use std::error::Error;
use std::process::ExitCode;

use miette::Diagnostic;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    Ok = 0,
    /// Something that none of the others names.
    Unexpected = 1,
    /// The command line; clap exits with it by itself.
    Usage = 2,
    /// A scenario or profile that cannot be.
    Invalid = 3,
    /// The run missed a service level that its scenario asks for.
    SloMissed = 4,
    /// An oracle found a broken promise.
    InvariantViolated = 5,
    /// Two runs of one seed differ.
    NotDeterministic = 6,
    /// Simulation and hardware disagree beyond the scenario's budget.
    BeyondBudget = 7,
    /// The server to be driven cannot be reached.
    Unreachable = 8,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        ExitCode::from(code as u8)
    }
}

/// An error on its way to the user.
pub struct Failure {
    pub code: Code,
    pub report: Box<dyn Diagnostic + Send + Sync>,
}

impl Failure {
    pub fn new(code: Code, report: impl Diagnostic + Send + Sync + 'static) -> Self {
        Self { code, report: Box::new(report) }
    }

    /// An error without a source position, with the next step to take.
    pub fn with_help(code: Code, message: impl ToString, help: impl ToString) -> Self {
        Self::new(code, Plain { message: message.to_string(), help: Some(help.to_string()) })
    }

    /// An error, or a sentence, with what caused it.
    pub fn unexpected(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let message = with_causes(error.into().as_ref());
        Self::new(Code::Unexpected, Plain { message, help: None })
    }
}

/// The error and the errors behind it, as far as it does not tell of them itself.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.map(ToString::to_string).fold(error.to_string(), |told, cause| match told.contains(&cause) {
        true => told,
        false => format!("{told}: {cause}"),
    })
}

#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
struct Plain {
    message: String,
    #[help]
    help: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::{Code, Failure};

    #[test]
    fn errors_carry_their_causes_once() {
        let cause = || std::io::Error::other("the disk is full");
        let told = |error: reports::FilesError| Failure::unexpected(error).report.to_string();
        let error = reports::FilesError::Write { path: "out".into(), source: cause() };
        assert_eq!(told(error), "cannot write out: the disk is full");
        assert_eq!(Failure::unexpected(cause()).report.to_string(), "the disk is full");
        assert_eq!(Failure::unexpected("a sentence").report.to_string(), "a sentence");
    }

    #[test]
    fn codes_are_fixed() {
        let codes = [
            (Code::Ok, 0),
            (Code::Unexpected, 1),
            (Code::Usage, 2),
            (Code::Invalid, 3),
            (Code::SloMissed, 4),
            (Code::InvariantViolated, 5),
            (Code::NotDeterministic, 6),
            (Code::BeyondBudget, 7),
            (Code::Unreachable, 8),
        ];
        for (code, number) in codes {
            assert_eq!(code as u8, number);
        }
    }
}
