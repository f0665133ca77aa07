//! A paused clock for tests with real sockets; shared by path.

use std::sync::mpsc;
use std::time::Duration;

/// Longer than anything on the loopback takes, on any machine.
const AT_MOST: Duration = Duration::from_secs(60);

/// Longer than any limit or wait of a test.
const HOUR: Duration = Duration::from_secs(3_600);

/// Makes what would hang fail: a paused clock moves by itself once there is nothing else to do.
pub(crate) async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(HOUR, what).await.unwrap()
}

/// Keeps a paused clock where it is until this is dropped, unless somebody moves it: tokio moves it by
/// itself, to the next timer, only while no blocking task runs. In the end it is let go, for [`in_time`].
pub(crate) struct HeldClock {
    _hold: mpsc::Sender<()>,
}

impl HeldClock {
    pub(crate) fn hold() -> Self {
        let (hold, released) = mpsc::channel();
        tokio::task::spawn_blocking(move || released.recv_timeout(AT_MOST));
        Self { _hold: hold }
    }
}
