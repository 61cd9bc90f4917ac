//! The files that a run leaves: `OUT/<scenario>/<system>/<seed>/`.
//!
//! `record.json`, `report.html` and `plot.svg` of a simulated run follow from the scenario and the seed alone: two runs
//! leave equal bytes. `timing.json` is what the host's clock said.

use std::path::{Path, PathBuf};
use std::{fs, io};

use scenarios::Recorder;
use scenarios::record::{RunRecord, Timing};

use crate::{PlotError, page, plot};

#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Plot(#[from] PlotError),
}

pub fn folder(out: &Path, record: &RunRecord) -> PathBuf {
    out.join(&record.scenario).join(&record.system).join(record.seed.to_string())
}

/// Makes the folder where it is missing. Gives the file's path.
fn put(folder: &Path, name: &str, content: String) -> Result<PathBuf, FilesError> {
    fs::create_dir_all(folder).map_err(|source| FilesError::Write { path: folder.to_path_buf(), source })?;
    let path = folder.join(name);
    fs::write(&path, content).map_err(|source| FilesError::Write { path: path.clone(), source })?;
    Ok(path)
}

/// Of all records of the first one's scenario.
fn scenario_folder(out: &Path, records: &[&RunRecord]) -> PathBuf {
    out.join(records.first().map_or("", |first| &first.scenario))
}

/// Writes `record.json`, `report.html`, `plot.svg` and, where given, `timing.json`. Gives the folder.
pub fn write(out: &Path, record: &RunRecord, timing: Option<&Timing>) -> Result<PathBuf, FilesError> {
    let folder = folder(out, record);
    put(&folder, "record.json", record.to_json())?;
    put(&folder, "plot.svg", plot::svg(&[record])?)?;
    put(&folder, "report.html", page::html(&[record])?)?;
    if let Some(timing) = timing {
        put(&folder, "timing.json", serde_json::to_string_pretty(timing).expect("a timing has plain fields") + "\n")?;
    }
    Ok(folder)
}

/// Writes one page for several records of a scenario to `OUT/<scenario>/report.html`.
pub fn write_page(out: &Path, records: &[&RunRecord]) -> Result<PathBuf, FilesError> {
    put(&scenario_folder(out, records), "report.html", page::html(records)?)
}

/// Writes a phase's whole histogram to `hdr/<phase>.csv` of a run's folder: latency in ns, operations at most that late.
pub fn write_histogram(folder: &Path, phase: &str, recorder: &Recorder) -> Result<(), FilesError> {
    let rows = recorder.distribution().into_iter().map(|(ns, operations)| format!("{ns},{operations}\n"));
    let text = "latency_ns,operations\n".to_string() + &rows.collect::<String>();
    put(&folder.join("hdr"), &format!("{phase}.csv"), text).map(drop)
}

/// Writes the picture of several systems under one scenario to `OUT/<scenario>/plot.svg`.
pub fn write_comparison(out: &Path, records: &[&RunRecord]) -> Result<PathBuf, FilesError> {
    put(&scenario_folder(out, records), "plot.svg", plot::svg(records)?)
}
