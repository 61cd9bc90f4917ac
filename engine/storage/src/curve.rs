//! What a controller sets by what it sees.

/// Straight lines between points; flat before the first and behind the last.
pub(crate) struct Curve(pub &'static [(f64, f64)]);

impl Curve {
    pub fn at(&self, x: f64) -> f64 {
        let points = self.0;
        let behind = points.partition_point(|point| point.0 <= x);
        match (behind.checked_sub(1).map(|at| points[at]), points.get(behind)) {
            (Some((x0, y0)), Some((x1, y1))) => y0 + (x - x0) * (y1 - y0) / (x1 - x0),
            (Some((_, y)), None) => y,
            (None, first) => first.map_or(0.0, |point| point.1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_straight_between_points() {
        const CURVE: Curve = Curve(&[(0.0, 50.0), (1.5, 100.0), (30.0, 1000.0)]);
        assert_eq!([-1.0, 0.0, 0.75, 1.5].map(|x| CURVE.at(x)), [50.0, 50.0, 75.0, 100.0]);
        assert_eq!([15.75, 30.0, 1e9].map(|x| CURVE.at(x)), [550.0, 1000.0, 1000.0]);
    }
}
