//! Progress of something that tells its steps: a bar on standard error, if that is a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub struct Steps(ProgressBar);

const WHOLE: u64 = 1_000;

impl Steps {
    pub fn begin() -> Self {
        let bar = ProgressBar::new(WHOLE);
        let hidden = !std::io::stderr().is_terminal();
        bar.set_draw_target(if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() });
        let template = "{bar:40} {percent:>3} % {elapsed} {msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
        Self(bar)
    }

    pub fn tell(&self, what: &str, part: f64) {
        self.0.set_position((part * WHOLE as f64) as u64);
        self.0.set_message(what.to_string());
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
