//! Energy that cards used in a window.
//!
//! By the card's own energy counter, where it has one, read between the samples around the
//! window's ends; else by the power of its samples, held between them by straight lines. Both need
//! samples on either side: what lies outside them is not known.

use inferscope_shared::clock::MonoNs;

use super::GpuSample;

/// Joules that one card used from `start` to `end`, by its samples in the order of time; none when
/// they do not reach around the window, or say neither energy nor power.
#[must_use]
pub fn joules(samples: &[&GpuSample], start: MonoNs, end: MonoNs) -> Option<f64> {
    if end < start {
        return None;
    }
    let counter: Vec<(MonoNs, f64)> = samples
        .iter()
        .filter_map(|s| Some((s.t_ns, s.energy_joules?)))
        .collect();
    let by_counter = match (at(&counter, start), at(&counter, end)) {
        // A counter that fell was set back with the driver.
        (Some(from), Some(to)) => Some(to - from).filter(|&used| used >= 0.0),
        _ => None,
    };
    by_counter.or_else(|| {
        let power: Vec<(MonoNs, f64)> = samples
            .iter()
            .filter_map(|s| Some((s.t_ns, s.power_watts?)))
            .collect();
        area(&power, start, end)
    })
}

/// The value of a series at an instant, on the straight line between the points around it.
#[must_use]
pub fn at(series: &[(MonoNs, f64)], t: MonoNs) -> Option<f64> {
    let after = series.partition_point(|(when, _)| *when < t);
    let &(to, high) = series.get(after)?;
    if to == t {
        return Some(high);
    }
    let &(from, low) = series.get(after.checked_sub(1)?)?;
    let share = t.since(from) as f64 / to.since(from) as f64;
    Some(low + (high - low) * share)
}

/// Area below the straight lines between the points of a series, in its unit times seconds.
fn area(series: &[(MonoNs, f64)], start: MonoNs, end: MonoNs) -> Option<f64> {
    let mut corners = vec![(start, at(series, start)?)];
    corners.extend(series.iter().filter(|(t, _)| *t > start && *t < end));
    corners.push((end, at(series, end)?));
    let slices = corners.windows(2).map(|pair| {
        let (from, low) = pair[0];
        let (to, high) = pair[1];
        to.since(from) as f64 / 1e9 * (low + high) / 2.0
    });
    Some(slices.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn sample(t: u64, energy: Option<f64>, power: Option<f64>) -> GpuSample {
        GpuSample {
            energy_joules: energy,
            power_watts: power,
            ..GpuSample::unknown(MonoNs(t), 0)
        }
    }

    fn used(samples: &[GpuSample], start: u64, end: u64) -> Option<f64> {
        let samples: Vec<&GpuSample> = samples.iter().collect();
        joules(&samples, MonoNs(start), MonoNs(end))
    }

    #[test]
    fn the_counter_is_read_between_the_samples_around_the_window() {
        let steady = [
            sample(0, Some(100.0), Some(1.0)),
            sample(2 * S, Some(300.0), Some(1.0)),
            sample(4 * S, Some(500.0), Some(1.0)),
        ];
        assert_eq!(used(&steady, 0, 4 * S), Some(400.0));
        assert_eq!(used(&steady, S, 3 * S), Some(200.0));
        assert_eq!(used(&steady, S, S), Some(0.0));
    }

    #[test]
    fn without_a_counter_the_power_is_added_up() {
        let rising = [
            sample(0, None, Some(0.0)),
            sample(2 * S, None, Some(200.0)),
            sample(4 * S, None, Some(200.0)),
        ];
        assert_eq!(used(&rising, 0, 4 * S), Some(600.0));
        assert_eq!(used(&rising, S, 3 * S), Some(150.0 + 200.0));
    }

    #[test]
    fn what_samples_do_not_reach_around_is_not_known() {
        let two = [sample(S, Some(1.0), None), sample(2 * S, Some(2.0), None)];
        assert_eq!(used(&two, 0, 2 * S), None);
        assert_eq!(used(&two, S, 3 * S), None);
        assert_eq!(used(&two, 2 * S, S), None);
        assert_eq!(used(&[], S, 2 * S), None);
        assert_eq!(
            used(
                &[sample(0, None, None), sample(3 * S, None, None)],
                S,
                2 * S
            ),
            None
        );
        let reset = [sample(0, Some(900.0), None), sample(2 * S, Some(1.0), None)];
        assert_eq!(
            used(&reset, 0, 2 * S),
            None,
            "a counter that fell says nothing"
        );
    }
}
