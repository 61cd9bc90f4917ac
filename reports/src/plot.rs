//! The picture of a run: throughput and latency over time, a column for each phase, a colour for each system.
//!
//! SVG text without fonts or system libraries; the same records give the same bytes. Published throughputs are dashed
//! lines, the beginning of a phase that is not measured is shaded.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use scenarios::Metric;
use scenarios::record::{Kind, PhaseRecord, RunRecord};

use crate::canvas::{Area, GREY, INK, PlotError, RULE, SHADE, SYSTEMS, bold, nice_step, short, style, text};
use crate::number::{grouped, percent, scale};
use crate::seeds::firsts;

const MARGIN: i32 = 24;
const AXIS_WIDTH: i32 = 62;
const COLUMN_GAP: i32 = 20;
const HEADER: i32 = 78;
const PANEL_TITLE: i32 = 38;
const THROUGHPUT_HEIGHT: i32 = 220;
const LATENCY_HEIGHT: i32 = 180;
const TIME_AXIS: i32 = 30;
const FOOTER: i32 = 34;
const WIDTH: i32 = 1080;

/// All records are of one scenario; phases that a record lacks stay empty. Of several seeds the first is drawn.
pub fn svg(records: &[&RunRecord]) -> Result<String, PlotError> {
    let records: &[&RunRecord] = &firsts(records);
    let Some(first) = records.first() else { return Err(PlotError("there is no record".to_string())) };
    // A line a system under each phase's name.
    let notes = 22 + 16 * records.len() as i32;
    let height = HEADER + notes + PANEL_TITLE + THROUGHPUT_HEIGHT + PANEL_TITLE + LATENCY_HEIGHT + TIME_AXIS + FOOTER;
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, (WIDTH as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        header(&root, first, records)?;
        let names: Vec<&str> = first.phases.iter().map(|p| p.name.as_str()).collect();
        let scales = Scales::of(records);
        let room = WIDTH - 2 * MARGIN - AXIS_WIDTH - COLUMN_GAP * (names.len() as i32 - 1).max(0);
        let width = room / names.len().max(1) as i32;
        let top = HEADER + notes + PANEL_TITLE;
        let below = top + THROUGHPUT_HEIGHT + PANEL_TITLE;
        scales.draw_axis(&root, top, THROUGHPUT_HEIGHT, "operations a second", scales.throughput_ticks())?;
        scales.draw_axis(&root, below, LATENCY_HEIGHT, "latency, p50 thin and p99 thick", scales.latency_ticks())?;
        for (i, name) in names.iter().enumerate() {
            let left = MARGIN + AXIS_WIDTH + i as i32 * (width + COLUMN_GAP);
            let column = Column { left, width, name, records, scales: &scales };
            column.draw_notes(&root, HEADER)?;
            column.draw_throughput(&root, top)?;
            column.draw_latency(&root, below)?;
            column.draw_time(&root, below + LATENCY_HEIGHT)?;
        }
        footer(&root, first, height)?;
        root.present()?;
    }
    Ok(picture)
}

fn header(root: &Area<'_>, first: &RunRecord, records: &[&RunRecord]) -> Result<(), PlotError> {
    text(root, (MARGIN, 22), &first.scenario, bold(22, INK))?;
    text(root, (MARGIN, 52), &first.about, style(13, GREY))?;
    // From the right edge, the last system first; widths are estimates, for no font is measured.
    let mut right = WIDTH - MARGIN;
    for (i, record) in records.iter().enumerate().rev() {
        let left = right - record.system.len() as i32 * 8;
        text(root, (left, 33), &record.system, style(14, INK).pos(Pos::new(HPos::Left, VPos::Center)))?;
        root.draw(&Rectangle::new([(left - 17, 28), (left - 7, 38)], SYSTEMS[i % SYSTEMS.len()].filled()))?;
        right = left - 40;
    }
    Ok(())
}

fn footer(root: &Area<'_>, first: &RunRecord, height: i32) -> Result<(), PlotError> {
    let kind = match first.kind {
        Kind::Simulated => format!("simulated, {}, seed {}", scale(first.scale), first.seed),
        Kind::Real => "measured on real machines".to_string(),
    };
    let words = format!("{} loaded by {}; {kind}; dashed: published", first.cluster, first.loaders);
    text(root, (MARGIN, height - 24), &words, style(12, GREY))
}

/// Common vertical scales, so that columns can be compared.
struct Scales {
    throughput_step: f64,
    throughput_max: f64,
    latency_min_ns: f64,
    latency_max_ns: f64,
}

impl Scales {
    fn of(records: &[&RunRecord]) -> Self {
        let steps = || records.iter().flat_map(|r| &r.phases).flat_map(|p| &p.series);
        let published = records.iter().flat_map(|r| &r.references).filter(|r| r.metric == Metric::Throughput);
        let highest = steps().map(|s| s.throughput).chain(published.map(|r| r.reference)).fold(1.0, f64::max);
        let low = steps().map(|s| s.p50).filter(|p| *p > 0).min().unwrap_or(1_000_000);
        let high = steps().map(|s| s.p99).max().unwrap_or(1_000_000);
        let decade = |ns: u64, up: bool| {
            let below = 10f64.powi(ns.max(1).ilog10() as i32);
            if up && (ns as f64) > below { below * 10.0 } else { below }
        };
        let throughput_step = nice_step(highest);
        let latency_min_ns = decade(low, false).max(1e3);
        Self {
            throughput_step,
            throughput_max: throughput_step * (highest * 1.04 / throughput_step).ceil(),
            latency_min_ns,
            latency_max_ns: decade(high, true).max(latency_min_ns * 10.0),
        }
    }

    /// Height of a value over its panel's floor, 0 to 1, and its label.
    fn throughput_ticks(&self) -> Vec<(f64, String)> {
        let count = (self.throughput_max / self.throughput_step).round() as u32;
        let tick = |i: u32| (f64::from(i) / f64::from(count), short(f64::from(i) * self.throughput_step));
        (0..=count).map(tick).collect()
    }

    fn latency_ticks(&self) -> Vec<(f64, String)> {
        let decades = self.decades();
        (0..=decades as u32)
            .map(|i| {
                let ns = self.latency_min_ns * 10f64.powi(i as i32);
                let label = match ns {
                    ns if ns >= 1e9 => format!("{} s", ns / 1e9),
                    ns if ns >= 1e6 => format!("{} ms", ns / 1e6),
                    ns => format!("{} us", ns / 1e3),
                };
                (f64::from(i) / decades, label)
            })
            .collect()
    }

    fn decades(&self) -> f64 {
        libm::log10(self.latency_max_ns / self.latency_min_ns).round().max(1.0)
    }

    fn latency_height(&self, ns: u64) -> f64 {
        (libm::log10((ns as f64).max(self.latency_min_ns) / self.latency_min_ns) / self.decades()).clamp(0.0, 1.0)
    }

    fn draw_axis(
        &self,
        root: &Area<'_>,
        top: i32,
        height: i32,
        title: &str,
        ticks: Vec<(f64, String)>,
    ) -> Result<(), PlotError> {
        text(root, (MARGIN, top - 26), title, style(12, GREY))?;
        for (at, label) in ticks {
            let y = top + height - (at * f64::from(height)).round() as i32;
            let anchored = style(12, GREY).pos(Pos::new(HPos::Right, VPos::Center));
            text(root, (MARGIN + AXIS_WIDTH - 10, y), &label, anchored)?;
            root.draw(&PathElement::new(vec![(MARGIN + AXIS_WIDTH, y), (WIDTH - MARGIN, y)], RULE.stroke_width(1)))?;
        }
        Ok(())
    }
}

/// One phase of all systems.
struct Column<'a> {
    left: i32,
    width: i32,
    name: &'a str,
    records: &'a [&'a RunRecord],
    scales: &'a Scales,
}

impl<'a> Column<'a> {
    fn phases(&self) -> impl Iterator<Item = (RGBColor, &'a RunRecord, &'a PhaseRecord)> {
        let name = self.name;
        let colours = SYSTEMS.iter().cycle();
        self.records
            .iter()
            .zip(colours)
            .filter_map(move |(record, colour)| Some((*colour, *record, record.phase(name)?)))
    }

    fn longest_ns(&self) -> f64 {
        self.phases().map(|(_, _, p)| p.duration_ns).max().unwrap_or(1).max(1) as f64
    }

    fn x(&self, ns: f64) -> i32 {
        self.left + (ns / self.longest_ns() * f64::from(self.width)).round().min(f64::from(self.width)) as i32
    }

    /// The phase's name and, for each system, its throughput beside the published one.
    fn draw_notes(&self, root: &Area<'_>, top: i32) -> Result<(), PlotError> {
        text(root, (self.left, top), self.name, bold(15, INK))?;
        for (i, (colour, record, phase)) in self.phases().enumerate() {
            let mut words = format!("{} op/s", grouped(phase.throughput.round() as u64));
            let throughput = |r: &&scenarios::Comparison| r.phase == self.name && r.metric == Metric::Throughput;
            let duration = |r: &&scenarios::Comparison| r.phase == self.name && r.metric == Metric::Duration;
            let found = record.references.iter().find(throughput).or(record.references.iter().find(duration));
            if let Some((reference, error)) = found.and_then(|r| r.relative_error.map(|e| (r, e))) {
                let published = grouped(reference.reference.round() as u64);
                let ours = match reference.metric {
                    Metric::Throughput => String::new(),
                    _ => format!("{} {}, ", grouped(reference.ours.unwrap_or(0.0).round() as u64), reference.unit),
                };
                let fitted = if reference.fitted { ", fitted" } else { "" };
                words += &format!("; {ours}published {published} {} ({}{fitted})", reference.unit, percent(error));
            }
            text(root, (self.left, top + 22 + 16 * i as i32), &words, style(12, colour))?;
        }
        Ok(())
    }

    fn shade_warmup(&self, root: &Area<'_>, top: i32, height: i32) -> Result<(), PlotError> {
        let warmup = self.phases().map(|(_, _, p)| p.warmup_ns).max().unwrap_or(0);
        if warmup > 0 {
            let corner = (self.x(warmup as f64), top + height);
            root.draw(&Rectangle::new([(self.left, top), corner], SHADE.mix(0.8).filled()))?;
        }
        Ok(())
    }

    /// Middle of each step of the series, in pixels.
    fn points(
        &self,
        phase: &PhaseRecord,
        top: i32,
        height: i32,
        value: impl Fn(&scenarios::Interval) -> f64,
    ) -> Vec<(i32, i32)> {
        let y = |share: f64| top + height - (share.clamp(0.0, 1.0) * f64::from(height)).round() as i32;
        let middle = |s: &scenarios::Interval| {
            (s.begin_ns as f64 + phase.interval_ns as f64 / 2.0).min(phase.duration_ns as f64)
        };
        phase.series.iter().map(|s| (self.x(middle(s)), y(value(s)))).collect()
    }

    fn draw_throughput(&self, root: &Area<'_>, top: i32) -> Result<(), PlotError> {
        self.shade_warmup(root, top, THROUGHPUT_HEIGHT)?;
        for (colour, record, phase) in self.phases() {
            let line = self.points(phase, top, THROUGHPUT_HEIGHT, |s| s.throughput / self.scales.throughput_max);
            if let (Some(first), Some(last)) = (line.first().copied(), line.last().copied()) {
                let floor = top + THROUGHPUT_HEIGHT;
                let mut area = vec![(first.0, floor)];
                area.extend(&line);
                area.push((last.0, floor));
                root.draw(&Polygon::new(area, colour.mix(0.1).filled()))?;
            }
            root.draw(&PathElement::new(line, colour.stroke_width(2)))?;
            let published = record.references.iter().filter(|r| r.phase == self.name && r.metric == Metric::Throughput);
            for reference in published {
                let share = reference.reference / self.scales.throughput_max;
                let y = top + THROUGHPUT_HEIGHT - (share * f64::from(THROUGHPUT_HEIGHT)).round() as i32;
                for dash in (self.left..self.left + self.width).step_by(12) {
                    let end = (dash + 7).min(self.left + self.width);
                    root.draw(&PathElement::new(vec![(dash, y), (end, y)], colour.stroke_width(2)))?;
                }
            }
        }
        Ok(())
    }

    fn draw_latency(&self, root: &Area<'_>, top: i32) -> Result<(), PlotError> {
        self.shade_warmup(root, top, LATENCY_HEIGHT)?;
        for (colour, _, phase) in self.phases() {
            let p50 = self.points(phase, top, LATENCY_HEIGHT, |s| self.scales.latency_height(s.p50));
            let p99 = self.points(phase, top, LATENCY_HEIGHT, |s| self.scales.latency_height(s.p99));
            root.draw(&PathElement::new(p50, colour.mix(0.55).stroke_width(1)))?;
            root.draw(&PathElement::new(p99, colour.stroke_width(2)))?;
        }
        Ok(())
    }

    fn draw_time(&self, root: &Area<'_>, top: i32) -> Result<(), PlotError> {
        let longest_s = self.longest_ns() / 1e9;
        let step = nice_step(longest_s * 1.4);
        let centred = || style(12, GREY).pos(Pos::new(HPos::Center, VPos::Top));
        let count = (longest_s / step + 1e-9).floor() as u32;
        for i in 0..=count {
            let seconds = f64::from(i) * step;
            let x = self.x(seconds * 1e9);
            root.draw(&PathElement::new(vec![(x, top), (x, top + 5)], GREY.stroke_width(1)))?;
            // Three digits behind the point at most: steps are 1, 2 or 5 times a power of ten.
            let label = format!("{}", (seconds * 1e3).round() / 1e3);
            text(root, (x, top + 9), &if i == 0 { "0 s".to_string() } else { label }, centred())?;
        }
        Ok(())
    }
}
