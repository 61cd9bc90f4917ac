//! `report.html`: what a run did, beside what was published, and why it did no better. One file, pictures in it.

use std::fmt::Write;

use scenarios::record::{PhaseRecord, RunRecord};
use scenarios::{On, Wait};

use crate::canvas::PlotError;
use crate::number::plain;
use crate::seeds::firsts;
use crate::{plot, references, table, timeline};

const STYLE: &str = "body{font:15px/1.5 Helvetica,Arial,sans-serif;color:#111827}\
body{max-width:1100px;margin:2em auto;padding:0 1em}\
pre,table{font-size:13px}pre{overflow-x:auto;background:#f9fafb;padding:1em}svg{max-width:100%;height:auto}\
table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #e5e7eb;text-align:right}\
td:first-child,th:first-child{text-align:left}p.note{color:#6b7280;font-size:13px}";

/// What waits are listed of, in the table's order.
const COLUMNS: [On; 10] = [
    On::Work,
    On::Cpu,
    On::IoQueue,
    On::Disk,
    On::DiskQueue,
    On::Throttle,
    On::Network,
    On::NetworkQueue,
    On::Lock,
    On::Pause,
];

/// Records of one scenario: several systems, or several seeds, of which the first is explained.
pub fn html(records: &[&RunRecord]) -> Result<String, PlotError> {
    let Some(first) = records.first() else { return Err(PlotError("there is no record".to_string())) };
    let mut page = String::new();
    let title = escaped(&first.scenario);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n<p>{}</p>\n",
        escaped(&first.about)
    );
    page.push_str(&plot::svg(records)?);
    if let Some(picture) = references::svg(records)? {
        let note = "Hollow dots: a profile was fitted to this value.";
        let theirs = table::references_are(first);
        let _ = write!(page, "\n<h2>Beside what was {theirs}</h2>\n{picture}\n<p class=\"note\">{note}</p>\n");
    }
    let seeds = table::seeds(records.iter().copied());
    if !seeds.is_empty() {
        let _ = writeln!(page, "<pre>{}</pre>", escaped(&seeds));
    }
    for record in firsts(records) {
        let _ =
            write!(page, "<h2>{}</h2>\n<pre>{}</pre>\n", escaped(&record.system), escaped(&table::run(record, None)));
        for phase in &record.phases {
            explain(&mut page, phase)?;
        }
    }
    page.push_str("</body></html>\n");
    Ok(page)
}

fn explain(page: &mut String, phase: &PhaseRecord) -> Result<(), PlotError> {
    let waits = &phase.explanation.waits;
    let picture = timeline::svg(phase)?;
    if picture.is_none() && waits.is_empty() {
        return Ok(());
    }
    let _ = write!(page, "<h3>{}</h3>\n<p>Limited by: {}.</p>\n", escaped(&phase.name), escaped(&table::limit(phase)));
    page.push_str(&picture.unwrap_or_default());
    if waits.is_empty() {
        return Ok(());
    }
    page.push_str("\n<table><tr><th>us for each operation</th>");
    let present: Vec<On> = COLUMNS.into_iter().filter(|on| waits.iter().any(|wait| wait.on == *on)).collect();
    present.iter().for_each(|on| page.push_str(&format!("<th>{}</th>", on.name())));
    page.push_str("</tr>\n");
    let mut classes: Vec<&str> = Vec::new();
    for wait in waits {
        if !classes.contains(&wait.class.as_str()) {
            classes.push(&wait.class);
        }
    }
    for class in classes {
        let _ = write!(page, "<tr><td>{}</td>", escaped(class));
        for on in &present {
            let of = |wait: &&Wait| wait.class == class && wait.on == *on;
            let cell = waits.iter().find(of).map(|wait| plain(wait.us_per_operation)).unwrap_or_default();
            let _ = write!(page, "<td>{cell}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str(
        "</table>\n<p class=\"note\">Waits of all the servers' tasks, summed, over the clients' operations. Tasks wait \
         side by side, so a sum is no part of a latency; what waits most is where more load would wait next.</p>\n",
    );
    Ok(())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
