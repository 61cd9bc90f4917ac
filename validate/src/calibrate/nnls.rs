//! Least squares with no negative part: Lawson and Hanson, Solving Least Squares Problems, chapter 23.
//!
//! On the normal equations, solved by Cholesky: the designs have some tens of columns and a ridge, which keeps the
//! equations definite. Pure and deterministic.

/// A symmetric matrix and a right side: `sum (a x - b)^2` is least where `matrix x = right`.
#[derive(Clone, Debug)]
pub struct Normal {
    size: usize,
    matrix: Vec<f64>,
    right: Vec<f64>,
}

impl Normal {
    pub fn new(size: usize) -> Self {
        Self { size, matrix: vec![0.0; size * size], right: vec![0.0; size] }
    }

    /// Adds `weight (row x - b)^2` to what is made least.
    pub fn add(&mut self, row: &[f64], b: f64, weight: f64) {
        for i in 0..self.size {
            for j in 0..self.size {
                self.matrix[i * self.size + j] += weight * row[i] * row[j];
            }
            self.right[i] += weight * row[i] * b;
        }
    }

    /// Adds `weight (x_i - to)^2`.
    pub fn pull(&mut self, i: usize, to: f64, weight: f64) {
        self.matrix[i * self.size + i] += weight;
        self.right[i] += weight * to;
    }

    /// Half the gradient's opposite at `x`.
    fn descent(&self, x: &[f64]) -> Vec<f64> {
        let row = |i: usize| &self.matrix[i * self.size..(i + 1) * self.size];
        (0..self.size).map(|i| self.right[i] - row(i).iter().zip(x).map(|(a, x)| a * x).sum::<f64>()).collect()
    }

    /// The solution over the columns `free`, the others 0. `None` where these are not independent.
    fn solve(&self, free: &[usize]) -> Option<Vec<f64>> {
        let n = free.len();
        let mut lower = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let mut sum = self.matrix[free[i] * self.size + free[j]];
                for k in 0..j {
                    sum -= lower[i * n + k] * lower[j * n + k];
                }
                lower[i * n + j] = match i == j {
                    true if sum > 0.0 => sum.sqrt(),
                    true => return None,
                    false => sum / lower[j * n + j],
                };
            }
        }
        let mut y = vec![0.0; n];
        for i in 0..n {
            let before: f64 = (0..i).map(|k| lower[i * n + k] * y[k]).sum();
            y[i] = (self.right[free[i]] - before) / lower[i * n + i];
        }
        for i in (0..n).rev() {
            let behind: f64 = (i + 1..n).map(|k| lower[k * n + i] * y[k]).sum();
            y[i] = (y[i] - behind) / lower[i * n + i];
        }
        let mut x = vec![0.0; self.size];
        free.iter().zip(y).for_each(|(i, y)| x[*i] = y);
        Some(x)
    }

    /// The least point without negative parts. `None` where a column that is wanted depends on others.
    pub fn least(&self) -> Option<Vec<f64>> {
        let mut x = vec![0.0; self.size];
        let mut free: Vec<usize> = Vec::new();
        let small = 1e-12 * self.right.iter().fold(0.0f64, |most, b| most.max(b.abs()));
        // Each turn frees a column; the bound is far beyond what the method needs.
        for _ in 0..10 * self.size {
            let descent = self.descent(&x);
            let wanted =
                (0..self.size).filter(|i| !free.contains(i)).max_by(|a, b| descent[*a].total_cmp(&descent[*b]));
            let Some(next) = wanted.filter(|i| descent[*i] > small) else { return Some(x) };
            free.push(next);
            loop {
                let goal = self.solve(&free)?;
                if free.iter().all(|i| goal[*i] > 0.0) {
                    x = goal;
                    break;
                }
                // As far towards the goal as nothing falls below 0; what has reached it stays there.
                let falling = free.iter().filter(|i| goal[**i] <= 0.0);
                let step = falling.map(|i| x[*i] / (x[*i] - goal[*i])).fold(1.0f64, f64::min);
                for i in 0..self.size {
                    x[i] += step * (goal[i] - x[i]);
                }
                free.retain(|i| x[*i] > 1e-12);
                (0..self.size).filter(|i| !free.contains(i)).for_each(|i| x[i] = 0.0);
                if free.is_empty() {
                    break;
                }
            }
        }
        Some(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(rows: &[([f64; 2], f64)]) -> Normal {
        let mut normal = Normal::new(2);
        rows.iter().for_each(|(row, b)| normal.add(row, *b, 1.0));
        normal
    }

    #[test]
    fn what_is_not_negative_is_least_squares() {
        let x = normal(&[([1.0, 0.0], 2.0), ([0.0, 1.0], 3.0), ([1.0, 1.0], 5.0)]).least().unwrap();
        assert!((x[0] - 2.0).abs() < 1e-9 && (x[1] - 3.0).abs() < 1e-9, "{x:?}");
    }

    #[test]
    fn what_would_be_negative_is_nothing() {
        // Without the bound: (-1, 3).
        let x = normal(&[([1.0, 0.0], -1.0), ([0.0, 1.0], 3.0), ([1.0, 1.0], 2.0)]).least().unwrap();
        assert_eq!(x[0], 0.0);
        assert!((x[1] - 2.5).abs() < 1e-9, "{x:?}");
    }

    #[test]
    fn a_pull_decides_what_nothing_else_does() {
        let mut normal = normal(&[([1.0, 0.0], 2.0)]);
        assert_eq!(normal.least(), Some(vec![2.0, 0.0]));
        normal.pull(1, 7.0, 1e-6);
        let x = normal.least().unwrap();
        assert!((x[0] - 2.0).abs() < 1e-9 && (x[1] - 7.0).abs() < 1e-9, "{x:?}");
    }
}
