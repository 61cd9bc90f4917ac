//! Similarity of vectors of floats, between 0 (nothing in common) and 1 (the same): the formulas of Apache Cassandra's
//! `VectorFcts`, which are Lucene's `VectorSimilarityFunction`s.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Similarity {
    Cosine,
    Euclidean,
    DotProduct,
}

impl Similarity {
    pub fn named(name: &str) -> Option<Similarity> {
        Some(match name {
            "similarity_cosine" => Similarity::Cosine,
            "similarity_euclidean" => Similarity::Euclidean,
            "similarity_dot_product" => Similarity::DotProduct,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Similarity::Cosine => "system.similarity_cosine",
            Similarity::Euclidean => "system.similarity_euclidean",
            Similarity::DotProduct => "system.similarity_dot_product",
        }
    }

    /// Of two vectors of the same dimension, as bytes. No number where a direction is asked of nothing but zeros.
    pub fn of(self, a: &[u8], b: &[u8]) -> f32 {
        let floats = |bytes: &[u8]| -> Vec<f64> {
            let one = |four: &[u8]| f64::from(f32::from_be_bytes(four.try_into().unwrap_or_default()));
            bytes.chunks_exact(4).map(one).collect()
        };
        let (a, b) = (floats(a), floats(b));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        match self {
            Similarity::Cosine => {
                let (a_square, b_square) = (dot(&a, &a), dot(&b, &b));
                ((1.0 + dot(&a, &b) / (a_square * b_square).sqrt()) / 2.0) as f32
            }
            Similarity::Euclidean => {
                let distance: f64 = a.iter().zip(&b).map(|(x, y)| (x - y) * (x - y)).sum();
                (1.0 / (1.0 + distance)) as f32
            }
            Similarity::DotProduct => ((1.0 + dot(&a, &b)) / 2.0) as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let bytes = |floats: &[f32]| floats.iter().flat_map(|f| f.to_be_bytes()).collect::<Vec<u8>>();
        let (x, y) = (bytes(&[1.0, 0.0]), bytes(&[0.0, 1.0]));
        for (similarity, same, other) in [
            (Similarity::Cosine, 1.0, 0.5),
            (Similarity::Euclidean, 1.0, 1.0 / 3.0),
            (Similarity::DotProduct, 1.0, 0.5),
        ] {
            assert_eq!((similarity.of(&x, &x), similarity.of(&x, &y)), (same, other));
        }
        assert!(Similarity::Cosine.of(&x, &bytes(&[0.0, 0.0])).is_nan());
    }
}
