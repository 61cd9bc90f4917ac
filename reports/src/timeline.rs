//! A phase's resources over time: above how much of each was in use, below how much waited at it, on a log scale.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use scenarios::record::PhaseRecord;
use scenarios::{Resource, Timeline};

use crate::canvas::{Area, GREY, INK, PlotError, RULE, SHADE, bold, nice_step, style, text};

const WIDTH: i32 = 1080;
const MARGIN: i32 = 24;
const AXIS_WIDTH: i32 = 62;
const LEGEND_LINE: i32 = 18;
const LEGEND_COLUMNS: usize = 4;
const TITLE: i32 = 40;
const USE_HEIGHT: i32 = 170;
const QUEUE_HEIGHT: i32 = 110;
const PANEL_TITLE: i32 = 34;
const TIME_AXIS: i32 = 34;
/// Told apart by colour-blind readers, too (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 240),
    RGBColor(90, 90, 90),
];
/// Less than this does not count as a queue.
const QUEUE_MIN: f64 = 0.1;

/// `None` where nothing is known over time. The busiest eight kinds are drawn.
pub(crate) fn svg(phase: &PhaseRecord) -> Result<Option<String>, PlotError> {
    let mut lines: Vec<&Timeline> = phase.explanation.timelines.iter().collect();
    let mean = |line: &Timeline| line.utilisation_mean.iter().sum::<f64>() / line.utilisation_mean.len().max(1) as f64;
    lines.sort_by(|a, b| mean(b).total_cmp(&mean(a)).then_with(|| a.name.cmp(&b.name)));
    lines.truncate(COLOURS.len());
    if lines.is_empty() {
        return Ok(None);
    }
    let legend = LEGEND_LINE * lines.len().div_ceil(LEGEND_COLUMNS) as i32;
    let top = TITLE + legend + PANEL_TITLE;
    let below = top + USE_HEIGHT + PANEL_TITLE;
    let height = below + QUEUE_HEIGHT + TIME_AXIS;
    let mut picture = String::new();
    {
        let root = SVGBackend::with_string(&mut picture, (WIDTH as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE)?;
        text(&root, (MARGIN, 12), &format!("{}: resources over time", phase.name), bold(15, INK))?;
        for (i, (line, colour)) in lines.iter().zip(COLOURS).enumerate() {
            let left = MARGIN + (i % LEGEND_COLUMNS) as i32 * ((WIDTH - 2 * MARGIN) / LEGEND_COLUMNS as i32);
            let y = TITLE + (i / LEGEND_COLUMNS) as i32 * LEGEND_LINE;
            root.draw(&Rectangle::new([(left, y), (left + 10, y + 10)], colour.filled()))?;
            text(&root, (left + 16, y - 1), &line.name, style(12, INK))?;
        }
        let chart = Chart { phase, root: &root };
        let ends = lines.iter().map(|line| line.step_ns as f64 * line.utilisation_mean.len() as f64);
        let longest_ns = ends.fold(phase.duration_ns as f64, f64::max).max(1.0);
        chart.panel(
            top,
            USE_HEIGHT,
            "in use, mean of all (thick) and of the busiest (thin)",
            longest_ns,
            &[(0.0, "0 %"), (0.5, "50 %"), (Resource::SATURATED, "90 %"), (1.0, "100 %")],
        )?;
        let most = lines.iter().flat_map(|line| &line.queue).fold(10.0 * QUEUE_MIN, |most, &queue| most.max(queue));
        let decades = libm::log10(most / QUEUE_MIN).ceil().max(1.0);
        let labels: Vec<(f64, String)> =
            (0..=decades as i32).map(|i| (f64::from(i) / decades, format!("{}", QUEUE_MIN * 10f64.powi(i)))).collect();
        let labels: Vec<(f64, &str)> = labels.iter().map(|(at, label)| (*at, label.as_str())).collect();
        chart.panel(below, QUEUE_HEIGHT, "waiting at one, mean of all", longest_ns, &labels)?;
        for (line, colour) in lines.iter().zip(COLOURS) {
            let draw = |values: &[f64], top, height, style: ShapeStyle| {
                let points = values.iter().enumerate().map(|(i, value)| {
                    let x = x((i as f64 + 0.5) * line.step_ns as f64, longest_ns);
                    (x, top + height - (value.clamp(0.0, 1.0) * f64::from(height)).round() as i32)
                });
                root.draw(&PathElement::new(points.collect::<Vec<_>>(), style))
            };
            draw(&line.utilisation_max, top, USE_HEIGHT, colour.mix(0.45).stroke_width(1))?;
            draw(&line.utilisation_mean, top, USE_HEIGHT, colour.stroke_width(2))?;
            let logs = line.queue.iter().map(|queue| libm::log10(queue.max(QUEUE_MIN) / QUEUE_MIN) / decades);
            draw(&logs.collect::<Vec<_>>(), below, QUEUE_HEIGHT, colour.stroke_width(2))?;
        }
        chart.time_axis(below + QUEUE_HEIGHT, longest_ns)?;
        root.present()?;
    }
    Ok(Some(picture))
}

fn x(ns: f64, longest_ns: f64) -> i32 {
    MARGIN + AXIS_WIDTH + (ns / longest_ns * f64::from(WIDTH - 2 * MARGIN - AXIS_WIDTH)).round() as i32
}

struct Chart<'a, 'b> {
    phase: &'a PhaseRecord,
    root: &'a Area<'b>,
}

impl Chart<'_, '_> {
    /// Title, warm-up and horizontal rules, these at heights from 0 to 1.
    fn panel(
        &self,
        top: i32,
        height: i32,
        title: &str,
        longest_ns: f64,
        rules: &[(f64, &str)],
    ) -> Result<(), PlotError> {
        text(self.root, (MARGIN, top - 24), title, style(12, GREY))?;
        let warm = x(self.phase.warmup_ns as f64, longest_ns);
        if self.phase.warmup_ns > 0 {
            self.root.draw(&Rectangle::new([(x(0.0, 1.0), top), (warm, top + height)], SHADE.mix(0.8).filled()))?;
        }
        for (at, label) in rules {
            let y = top + height - (at * f64::from(height)).round() as i32;
            let anchored = style(12, GREY).pos(Pos::new(HPos::Right, VPos::Center));
            text(self.root, (MARGIN + AXIS_WIDTH - 10, y), label, anchored)?;
            let rule = vec![(MARGIN + AXIS_WIDTH, y), (WIDTH - MARGIN, y)];
            self.root.draw(&PathElement::new(rule, RULE.stroke_width(1)))?;
        }
        Ok(())
    }

    fn time_axis(&self, top: i32, longest_ns: f64) -> Result<(), PlotError> {
        let step = nice_step(longest_ns / 1e9);
        for i in 0..=(longest_ns / 1e9 / step + 1e-9).floor() as u32 {
            let seconds = f64::from(i) * step;
            let x = x(seconds * 1e9, longest_ns);
            self.root.draw(&PathElement::new(vec![(x, top), (x, top + 5)], GREY.stroke_width(1)))?;
            let label = if i == 0 { "0 s".to_string() } else { format!("{}", (seconds * 1e3).round() / 1e3) };
            text(self.root, (x, top + 9), &label, style(12, GREY).pos(Pos::new(HPos::Center, VPos::Top)))?;
        }
        Ok(())
    }
}
