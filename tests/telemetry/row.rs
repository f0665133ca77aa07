//! One scenario, and all that is told of it.

use futures_util::future::LocalBoxFuture;

use super::ORIGIN;
use super::listening::{Told, listen};
use super::world::World;

pub(crate) struct Row {
    label: &'static str,
    run: Box<dyn FnOnce(World) -> LocalBoxFuture<'static, ()>>,
    hooks: Vec<&'static str>,
    /// `@` stands for the field `origin`.
    events: Vec<&'static str>,
    metrics: Vec<&'static str>,
}

pub(crate) fn row<F: Future<Output = ()> + 'static>(
    label: &'static str,
    run: impl FnOnce(World) -> F + 'static,
) -> Row {
    let run = Box::new(|world| -> LocalBoxFuture<'static, ()> { Box::pin(run(world)) });
    Row { label, run, hooks: vec![], events: vec![], metrics: vec![] }
}

impl Row {
    pub(crate) fn hooks<const N: usize>(self, hooks: [&'static str; N]) -> Self {
        Self { hooks: hooks.into(), ..self }
    }

    pub(crate) fn events<const N: usize>(self, events: [&'static str; N]) -> Self {
        Self { events: events.into(), ..self }
    }

    /// In order of their names.
    pub(crate) fn metrics<const N: usize>(self, metrics: [&'static str; N]) -> Self {
        Self { metrics: metrics.into(), ..self }
    }

    /// Runs it, and sees that exactly this was told, and nothing secret.
    pub(crate) async fn check(self) {
        let Self { label, run, hooks, events, metrics } = self;
        let mut shown = None;
        let told = listen(|hooks| {
            let world = World { hooks };
            shown = Some(world.shown().clone());
            run(world)
        });
        let told: Told = told.await;
        let shown = shown.unwrap();
        for line in told.hooks.iter().chain(&told.events).chain(&told.metrics) {
            shown.display(line);
        }
        shown.assert_nothing_secret(label);
        let origin = format!(" origin={ORIGIN}");
        let seen = told.events.iter().map(|line| line.replacen(&origin, " @", 1));
        let expected = if cfg!(feature = "tracing") { events } else { vec![] };
        assert_eq!(told.hooks, hooks, "{label}: hooks");
        assert_eq!(seen.collect::<Vec<_>>(), expected, "{label}: events");
        assert_eq!(told.metrics, metrics, "{label}: metrics");
    }
}
