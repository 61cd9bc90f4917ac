//! What all pictures are drawn with: an area of SVG, inks, words, and the steps of axes.

use plotters::coord::Shift;
use plotters::prelude::*;

#[derive(Debug, thiserror::Error)]
#[error("cannot draw the plot: {0}")]
pub struct PlotError(pub(crate) String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for PlotError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(crate) const INK: RGBColor = RGBColor(17, 24, 39);
pub(crate) const GREY: RGBColor = RGBColor(107, 114, 128);
pub(crate) const RULE: RGBColor = RGBColor(229, 231, 235);
pub(crate) const SHADE: RGBColor = RGBColor(243, 244, 246);
/// Told apart by colour-blind readers, too (after Okabe and Ito).
pub(crate) const SYSTEMS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];
const FONT: &str = "Helvetica, Arial, sans-serif";

/// The SVG backend writes a font's size divided by this.
const SIZE_FACTOR: f64 = 1.24;

pub(crate) fn style(size_px: i32, colour: RGBColor) -> TextStyle<'static> {
    (FONT, f64::from(size_px) * SIZE_FACTOR).into_font().color(&colour)
}

pub(crate) fn bold(size_px: i32, colour: RGBColor) -> TextStyle<'static> {
    (FONT, f64::from(size_px) * SIZE_FACTOR).into_font().style(FontStyle::Bold).color(&colour)
}

pub(crate) fn text(area: &Area<'_>, at: (i32, i32), words: &str, style: TextStyle<'_>) -> Result<(), PlotError> {
    Ok(area.draw(&Text::new(words.to_string(), at, style))?)
}

/// A step of 1, 2 or 5 times a power of ten that divides `range` into 3 to 7 parts.
pub(crate) fn nice_step(range: f64) -> f64 {
    let power = 10f64.powi(libm::log10(range.max(1e-9)).floor() as i32);
    let steps = [0.2, 0.5, 1.0, 2.0].map(|s| s * power);
    steps.into_iter().find(|step| range / step <= 6.5).unwrap_or(power)
}

/// `80k`, `1.5M`.
pub(crate) fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", v / 1e6),
        v if v >= 1e3 => format!("{}k", v / 1e3),
        v => format!("{v}"),
    }
}
