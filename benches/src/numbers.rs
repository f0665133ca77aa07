//! Numbers of many rounds.

/// The middle one, or NaN of nothing.
#[must_use]
pub fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    quartiles(numbers)[1]
}

/// A quarter, the half, and three quarters are below.
#[must_use]
pub fn quartiles(numbers: impl IntoIterator<Item = f64>) -> [f64; 3] {
    let mut numbers = numbers.into_iter().collect::<Vec<_>>();
    numbers.sort_by(f64::total_cmp);
    let last = numbers.len().saturating_sub(1);
    [last / 4, numbers.len() / 2, last - last / 4]
        .map(|at| numbers.get(at).copied().unwrap_or(f64::NAN))
}

/// Of each number to its partner of the same round.
pub fn ratios<'a>(these: &'a [f64], others: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    these.iter().zip(others).map(|(this, other)| this / other)
}
