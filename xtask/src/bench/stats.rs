//! Medians and quartiles.

/// The middle of some figures and the two quartiles around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Spread {
    /// Of figures in any order, at least one. Between two figures the quartiles are interpolated.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (sorted.len() - 1) as f64;
            let (below, part) = (place.floor() as usize, place.fract());
            let above = (below + 1).min(sorted.len() - 1);
            sorted[below] + (sorted[above] - sorted[below]) * part
        };
        Self { low: at(0.25), median: at(0.5), high: at(0.75) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_the_figures_they_part() {
        assert_eq!(Spread::of([5.0, 1.0, 3.0, 2.0, 4.0]), Spread { low: 2.0, median: 3.0, high: 4.0 });
        assert_eq!(Spread::of([4.0, 2.0]), Spread { low: 2.5, median: 3.0, high: 3.5 });
        assert_eq!(Spread::of([7.0]), Spread { low: 7.0, median: 7.0, high: 7.0 });
    }
}
