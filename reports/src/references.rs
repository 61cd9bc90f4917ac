//! Our values over the published ones, on a log scale: a dot each, the median of several seeds, and a bar from their
//! least to their greatest.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use scenarios::record::{Comparison, RunRecord};

use crate::canvas::{GREY, INK, PlotError, RULE, SYSTEMS, style, text};
use crate::number::{percent, plain};
use crate::seeds::{Seeds, Spread};
use crate::table::references_are;

const WIDTH: i32 = 1080;
const MARGIN: i32 = 24;
const LABEL_WIDTH: i32 = 330;
const VALUE_WIDTH: i32 = 260;
const ROW: i32 = 22;
const HEADER: i32 = 40;
const FOOTER: i32 = 12;
/// The axis reaches from a tenth of the published value to ten times it; what lies beyond is drawn at its end.
const RATIOS: [(f64, &str); 7] =
    [(0.1, "1/10"), (0.2, "1/5"), (0.5, "1/2"), (1.0, ""), (2.0, "2 x"), (5.0, "5 x"), (10.0, "10 x")];

/// `None` where nothing was published. Records of one scenario; those of one system differ by their seed alone.
pub(crate) fn svg(records: &[&RunRecord]) -> Result<Option<String>, PlotError> {
    let mut rows: Vec<(&str, Comparison, Spread)> = Vec::new();
    for seeds in Seeds::of_each(records.iter().copied()) {
        let with_values = seeds
            .references()
            .filter_map(|(comparison, spread)| Some((seeds.first().system.as_str(), comparison, spread?)));
        rows.extend(with_values.filter(|(_, comparison, _)| comparison.reference > 0.0));
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let height = HEADER + ROW * rows.len() as i32 + FOOTER;
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, (WIDTH as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        let theirs = records.first().map_or("published", |first| references_are(first));
        for (ratio, label) in RATIOS {
            let label = if ratio == 1.0 { theirs } else { label };
            let x = x(ratio);
            let centred = style(12, GREY).pos(Pos::new(HPos::Center, VPos::Top));
            text(&root, (x, 12), label, centred)?;
            let ink = if ratio == 1.0 { GREY } else { RULE };
            root.draw(&PathElement::new(vec![(x, HEADER - 8), (x, height - FOOTER)], ink.stroke_width(1)))?;
        }
        let mut systems: Vec<&str> = Vec::new();
        for (i, (system, comparison, spread)) in rows.iter().enumerate() {
            if !systems.contains(system) {
                systems.push(system);
            }
            let colour = SYSTEMS[systems.iter().position(|other| other == system).unwrap_or(0) % SYSTEMS.len()];
            let y = HEADER + ROW * i as i32 + ROW / 2;
            let Spread { median, least, most } = *spread;
            let at = |value: f64| x(value / comparison.reference);
            root.draw(&PathElement::new(vec![(at(least), y), (at(most), y)], colour.stroke_width(3)))?;
            let dot = if comparison.fitted { colour.stroke_width(2) } else { colour.filled() };
            root.draw(&Circle::new((at(median), y), 5, dot))?;
            let label = format!("{system}, {} {}", comparison.phase, comparison.metric);
            text(&root, (MARGIN, y), &label, style(12, INK).pos(Pos::new(HPos::Left, VPos::Center)))?;
            let error = percent(median / comparison.reference - 1.0);
            let fitted = if comparison.fitted { ", fitted" } else { "" };
            let words =
                format!("{} {} for {} ({error}{fitted})", plain(median), comparison.unit, plain(comparison.reference));
            let right = style(12, INK).pos(Pos::new(HPos::Right, VPos::Center));
            text(&root, (WIDTH - MARGIN, y), &words, right)?;
        }
        root.present()?;
    }
    Ok(Some(picture))
}

fn x(ratio: f64) -> i32 {
    let width = WIDTH - 2 * MARGIN - LABEL_WIDTH - VALUE_WIDTH;
    let place = (libm::log10(ratio.max(1e-9)) + 1.0) / 2.0;
    MARGIN + LABEL_WIDTH + (place.clamp(0.0, 1.0) * f64::from(width)).round() as i32
}
