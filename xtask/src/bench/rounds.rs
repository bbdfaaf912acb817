//! Rounds: in each every contender runs once, in an order that turns from round to round, so that a machine that slows down or speeds up
//! does so for all of them. Contenders of one thread run at the same time on one core, the others one after the other.

use super::options::Options;
use super::plan::{Benchmark, Comparison, Figure};
use super::run::{CpuTime, Fio, Sample};
use super::stats::Spread;
use std::io::{IsTerminal, stderr};

/// What the rounds gave.
pub(super) struct Measured {
    /// By contender, then by round.
    pub samples: Vec<Vec<Sample>>,
    /// By comparison.
    pub ratios: Vec<Ratio>,
}

/// One comparison, measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    pub contender: &'static str,
    pub yardstick: &'static str,
    pub figure: Figure,
    pub floor: Option<f64>,
    /// The ratios within each round. The claim is about their median: what changes from round to round is not in it.
    pub rounds: Spread,
    /// The contender's median over the yardstick's.
    pub of_medians: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is claimed.
    Information,
    Met,
    /// The floor lies between the quartiles of the rounds.
    MetWithinNoise,
    NotMetWithinNoise,
    NotMet,
}

/// Whether the contenders of each round run at the same time. Those with several threads would take the cores from one another unevenly.
pub(super) fn are_together(benchmark: &Benchmark, options: &Options) -> bool {
    benchmark.is_synchronous() && !options.apart
}

pub(super) fn measure(fio: &Fio, benchmark: &Benchmark, options: &Options) -> Result<Measured, String> {
    let contenders = &benchmark.contenders;
    let together = are_together(benchmark, options);
    let start_up: Vec<CpuTime> = match together {
        true => Vec::new(),
        false => contenders.iter().map(|contender| fio.start_up(benchmark, contender)).collect::<Result<_, _>>()?,
    };
    let mut samples = vec![Vec::new(); contenders.len()];
    for round in 0..options.rounds {
        if stderr().is_terminal() {
            eprint!("  round {} of {}\r", round + 1, options.rounds);
        }
        let order = order(round, contenders.len());
        if together {
            for (all, sample) in samples.iter_mut().zip(fio.together(benchmark, &order, options.seconds)?) {
                all.push(sample);
            }
        } else {
            for n in order {
                samples[n].push(fio.apart(benchmark, &contenders[n], start_up[n], options.seconds)?);
            }
        }
    }
    let ratios = benchmark.comparisons.iter().map(|comparison| compare(benchmark, comparison, &samples)).collect();
    Ok(Measured { samples, ratios })
}

/// Forth in one round, back in the next.
fn order(round: usize, contenders: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..contenders).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn compare(benchmark: &Benchmark, comparison: &Comparison, samples: &[Vec<Sample>]) -> Ratio {
    let of = |sample: &Sample| match comparison.figure {
        Figure::Iops => sample.iops,
        Figure::PerCpu => 1e6 / sample.cpu_us,
    };
    let figures = |name: &str| -> Vec<f64> {
        let of_name = benchmark.contenders.iter().zip(samples).find(|(contender, _)| contender.name == name);
        of_name.map_or_else(Vec::new, |(_, samples)| samples.iter().map(of).collect())
    };
    let (ours, yardstick) = (figures(comparison.contender), figures(comparison.yardstick));
    Ratio {
        contender: comparison.contender,
        yardstick: comparison.yardstick,
        figure: comparison.figure,
        floor: comparison.floor,
        of_medians: Spread::of(ours.iter().copied()).median / Spread::of(yardstick.iter().copied()).median,
        rounds: Spread::of(ours.iter().zip(&yardstick).map(|(ours, yardstick)| ours / yardstick)),
    }
}

impl Ratio {
    pub fn verdict(&self) -> Verdict {
        let Some(floor) = self.floor else { return Verdict::Information };
        let noisy = (self.rounds.low..self.rounds.high).contains(&floor);
        match (self.rounds.median >= floor, noisy) {
            (true, false) => Verdict::Met,
            (true, true) => Verdict::MetWithinNoise,
            (false, true) => Verdict::NotMetWithinNoise,
            (false, false) => Verdict::NotMet,
        }
    }
}

impl Verdict {
    pub fn is_met(self) -> bool {
        !matches!(self, Self::NotMet | Self::NotMetWithinNoise)
    }

    pub fn text(self) -> &'static str {
        match self {
            Self::Information => "for information",
            Self::Met => "met",
            Self::MetWithinNoise => "met, within the noise: use more rounds",
            Self::NotMetWithinNoise => "NOT MET, within the noise: use more rounds",
            Self::NotMet => "NOT MET",
        }
    }
}

impl Measured {
    /// A line for each claim that is not met.
    pub fn missed(&self, benchmark: &str) -> Vec<String> {
        let missed = self.ratios.iter().filter(|ratio| !ratio.verdict().is_met());
        let line = |ratio: &Ratio| {
            let (floor, found) = (ratio.floor.unwrap_or(0.0), ratio.rounds.median);
            format!(
                "benchmark {benchmark}: {} reaches {found:.3} of {} in {}, and {floor} is claimed",
                ratio.contender,
                ratio.yardstick,
                ratio.figure.text()
            )
        };
        missed.map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn ratio(low: f64, median: f64, high: f64, floor: Option<f64>) -> Ratio {
        Ratio { contender: "ours", yardstick: "theirs", figure: Figure::Iops, floor, rounds: Spread { low, median, high }, of_medians: 1.0 }
    }

    #[test]
    fn a_claim_is_met_from_its_floor_on_and_the_noise_is_named() {
        for (low, median, high, verdict) in [
            (0.96, 0.97, 0.98, Verdict::MetWithinNoise),
            (0.975, 0.98, 0.99, Verdict::Met),
            (0.95, 0.965, 0.98, Verdict::NotMetWithinNoise),
            (0.94, 0.95, 0.96, Verdict::NotMet),
        ] {
            assert_eq!(ratio(low, median, high, Some(0.97)).verdict(), verdict);
        }
        assert_eq!(ratio(0.1, 0.1, 0.1, None).verdict(), Verdict::Information);
    }

    #[test]
    fn only_a_claim_that_is_not_met_gets_a_line() {
        let ratios = vec![ratio(0.9, 0.9, 0.9, Some(0.97)), ratio(1.0, 1.0, 1.0, Some(0.97)), ratio(0.5, 0.5, 0.5, None)];
        let missed = Measured { samples: Vec::new(), ratios }.missed("posix");
        assert_eq!(missed, ["benchmark posix: ours reaches 0.900 of theirs in IOPS, and 0.97 is claimed"]);
    }

    #[test]
    fn the_order_turns_from_round_to_round() {
        assert_eq!([order(0, 3), order(1, 3), order(2, 3)], [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    }

    #[test]
    fn ratios_pair_the_runs_of_one_round() {
        let benchmark = super::super::plan::chosen(&["posix".to_owned()], Path::new("lib")).unwrap().remove(0);
        let samples = |iops: [f64; 3]| iops.map(|iops| Sample { iops, cpu_us: 1.0, user: 1.0, system: 1.0 }).to_vec();
        // The machine halves its speed on the way; each round is fair.
        let all = [samples([100.0, 80.0, 50.0]), samples([100.0, 80.0, 50.0]), samples([99.0, 79.2, 49.5])];
        let ratio = compare(&benchmark, &benchmark.comparisons[0], &all);
        assert!([ratio.of_medians, ratio.rounds.low, ratio.rounds.high].iter().all(|r| (r - 0.99).abs() < 1e-9), "{ratio:?}");
    }
}
