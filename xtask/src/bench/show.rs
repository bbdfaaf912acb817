//! A result as a table for people and as JSON for programs.

use super::machine::Machine;
use super::options::Options;
use super::plan::{Benchmark, Contender};
use super::rounds::{Measured, are_together};
use super::run::Sample;
use super::stats::Spread;
use serde_json::{Value, json};
use std::fmt::Write as _;

pub(super) fn heading(benchmark: &Benchmark, options: &Options) {
    println!("\n{}: {}", benchmark.name, benchmark.about);
    let way = way(benchmark, options);
    println!("  {} rounds of {} s, {way}; medians, with quartiles in brackets", options.rounds, options.seconds);
}

fn way(benchmark: &Benchmark, options: &Options) -> &'static str {
    if are_together(benchmark, options) { "all at once in one fio on one core" } else { "one after the other" }
}

pub(super) fn table(benchmark: &Benchmark, result: &Measured) -> String {
    let mut table = format!("  {:<26}{:>28}{:>18}{:>8}{:>8}\n", "", "IOPS", "CPU us per I/O", "usr %", "sys %");
    for (contender, samples) in benchmark.contenders.iter().zip(&result.samples) {
        let of = |figure: fn(&Sample) -> f64| Spread::of(samples.iter().map(figure));
        let iops = of(|s| s.iops);
        let iops = format!("{:.0} [{:.0} … {:.0}]", iops.median, iops.low, iops.high);
        let [cpu, user, system] = [of(|s| s.cpu_us), of(|s| s.user), of(|s| s.system)].map(|spread| spread.median);
        // A String takes every write.
        let _ = writeln!(table, "  {:<26}{iops:>28}{cpu:>18.3}{user:>8.0}{system:>8.0}", contender.name);
    }
    let _ = writeln!(table, "  {:<26}{:>28}{:>18}{:>16}  claim", "ratio", "by round", "of medians", "at least");
    for ratio in &result.ratios {
        let name = format!("{} / {}", ratio.contender, ratio.yardstick);
        let figures = format!("{:.3} [{:.3} … {:.3}]", ratio.rounds.median, ratio.rounds.low, ratio.rounds.high);
        let floor = ratio.floor.map_or_else(|| "-".to_owned(), |floor| floor.to_string());
        let _ = writeln!(
            table,
            "  {name:<26}{figures:>28}{:>18.3}{floor:>16}  {}, {}",
            ratio.of_medians,
            ratio.figure.text(),
            ratio.verdict().text()
        );
    }
    table
}

pub(super) fn json(benchmark: &Benchmark, result: &Measured, machine: &Machine, options: &Options) -> Value {
    let contender = |(contender, samples): (&Contender, &Vec<Sample>)| {
        let all = |figure: fn(&Sample) -> f64| samples.iter().map(figure).collect::<Vec<_>>();
        json!({
            "name": contender.name,
            "fio_options": benchmark.words(contender),
            "iops": all(|s| s.iops),
            "cpu_us_per_io": all(|s| s.cpu_us),
            "user_percent": all(|s| s.user),
            "system_percent": all(|s| s.system),
        })
    };
    let contenders: Vec<Value> = benchmark.contenders.iter().zip(&result.samples).map(contender).collect();
    let ratios = result.ratios.iter().map(|ratio| {
        json!({
            "contender": ratio.contender,
            "yardstick": ratio.yardstick,
            "of": ratio.figure.text(),
            "of_medians": ratio.of_medians,
            "by_round": { "low_quartile": ratio.rounds.low, "median": ratio.rounds.median, "high_quartile": ratio.rounds.high },
            "floor": ratio.floor,
            "met": ratio.verdict().is_met(),
            "verdict": ratio.verdict().text(),
        })
    });
    json!({
        "benchmark": benchmark.name,
        "about": benchmark.about,
        "machine": machine.to_json(),
        "rounds": options.rounds,
        "seconds": options.seconds,
        "way": way(benchmark, options),
        "contenders": contenders,
        "ratios": ratios.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Figure, chosen};
    use super::super::rounds::Ratio;
    use super::*;
    use std::path::Path;

    #[test]
    fn the_table_has_a_row_for_every_contender_and_claim() {
        let benchmark = chosen(&["posix".to_owned()], Path::new("lib")).unwrap().remove(0);
        let sample = Sample { iops: 500_000.4, cpu_us: 1.5, user: 20.0, system: 79.6 };
        let rounds = Spread { low: 0.98, median: 0.985, high: 0.99 };
        let ratio = Ratio { contender: "gpuio", yardstick: "psync", figure: Figure::Iops, floor: Some(0.97), of_medians: 0.985, rounds };
        let table = table(&benchmark, &Measured { samples: vec![vec![sample]; 3], ratios: vec![ratio] });
        assert_eq!(table.matches("500000 [500000 … 500000]").count(), 3, "{table}");
        let claim = table.lines().last().unwrap();
        assert!(
            claim.contains("gpuio / psync") && claim.contains("0.985 [0.980 … 0.990]") && claim.ends_with("0.97  IOPS, met"),
            "{claim}"
        );
    }
}
