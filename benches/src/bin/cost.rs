//! What a retry layer adds to a call that succeeds at once: allocations, bytes, time and instructions, over a
//! chain without one. Prints Markdown tables; nothing goes over the network.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml --bin cost [rounds] [calls]`
//!
//! - Memory is counted by the allocator, exactly. With `--gate` nothing else is measured, and the exit code is 1
//!   where a target is missed; that holds for a debug build, too.
//! - Time is that of a whole call; what is added is the difference to the bare chain in the same round. The
//!   contenders take turns, and another begins in each round. Nothing depends on times.
//! - `--loop CONTENDER KIND CALLS` makes these calls and nothing else, for callgrind: `benches/instructions`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use peers::around::{self, Again};
use peers::canned::Canned;
use peers::contenders::Contender;
use peers::counting::{Counting, Memory};
use peers::numbers::median;
use peers::requests::Kind;
use peers::targets;
use reqwest::{Client, Request, Response, Url};
use reqwest_middleware::ClientWithMiddleware;
use tokio::runtime::{Builder, Runtime};
use tower::retry::Retry;
use tower::util::ServiceExt as _;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Of those that are no middleware, as many as the middlewares have.
const RETRIES: u8 = 2;

enum Caller {
    Chain(ClientWithMiddleware),
    /// Around the bare chain.
    Backon(ClientWithMiddleware),
    /// Around the bare chain.
    Tower(Retry<Again, ClientWithMiddleware>),
}

impl Caller {
    const BACKON: &str = "backon around the bare chain";
    const TOWER: &str = "tower around the bare chain";

    /// All of them; the first is what the others are added to.
    fn names() -> impl Iterator<Item = &'static str> {
        Contender::ALL.map(Contender::name).into_iter().chain([Self::BACKON, Self::TOWER])
    }

    fn new(name: &str) -> Result<Self> {
        let chain = |contender: Contender| contender.client(Client::new(), Canned);
        Ok(match name {
            Self::BACKON => Self::Backon(chain(Contender::Bare)?),
            Self::TOWER => {
                let bare = chain(Contender::Bare)?;
                Self::Tower(around::tower(bare, RETRIES.into(), Duration::ZERO))
            }
            _ => {
                let contender = Contender::ALL.into_iter().find(|it| it.name() == name);
                Self::Chain(chain(contender.ok_or("no such contender")?)?)
            }
        })
    }
}

struct Bench {
    runtime: Runtime,
    url: Url,
    source: Bytes,
}

impl Bench {
    fn new() -> Result<Self> {
        Ok(Self {
            runtime: Builder::new_current_thread().enable_time().build()?,
            url: Url::parse("http://own.test/some/path?query")?,
            source: Bytes::from(vec![b'x'; 1 << 20]),
        })
    }

    /// What so many calls allocate, and how long they take.
    fn run(&self, caller: &Caller, kind: Kind, calls: usize) -> Result<(Memory, Duration)> {
        // Each with a loop of its own, so that nobody pays for the choice.
        match caller {
            Caller::Chain(client) => self.calls(kind, calls, |request| client.execute(request)),
            Caller::Backon(client) => self.calls(kind, calls, |request| {
                around::backon(request, RETRIES.into(), Duration::ZERO, |it| client.execute(it))
            }),
            Caller::Tower(retry) => {
                self.calls(kind, calls, |request| retry.clone().oneshot(request))
            }
        }
    }

    fn calls<F, E>(
        &self,
        kind: Kind,
        calls: usize,
        call: impl Fn(Request) -> F,
    ) -> Result<(Memory, Duration)>
    where
        F: Future<Output = std::result::Result<Response, E>>,
        Box<dyn std::error::Error>: From<E>,
    {
        let (mut memory, mut time) = (Memory::default(), Duration::ZERO);
        for _ in 0..calls {
            let request = kind.request(&self.url, &self.source);
            let (before, started) = (Memory::so_far(), Instant::now());
            let response = self.runtime.block_on(call(request))?;
            time += started.elapsed();
            let used = Memory::so_far() - before;
            memory.allocations += used.allocations;
            memory.bytes += used.bytes;
            drop(response);
        }
        Ok((memory, time))
    }
}

/// A contender, and what one call of it costs.
struct Cost {
    name: &'static str,
    caller: Caller,
    memory: Memory,
    times: Vec<Duration>,
}

/// The exact memory of one call; that of several must be a multiple of it.
fn memory(bench: &Bench, caller: &Caller, kind: Kind) -> Result<Memory> {
    const CALLS: usize = 64;
    bench.run(caller, kind, CALLS)?; // warm
    let (many, _) = bench.run(caller, kind, CALLS)?;
    let one = Memory { allocations: many.allocations / CALLS, bytes: many.bytes / CALLS };
    if one.allocations * CALLS != many.allocations || one.bytes * CALLS != many.bytes {
        return Err(format!("{many:?} is no multiple of {CALLS} calls").into());
    }
    Ok(one)
}

fn costs(bench: &Bench, kind: Kind) -> Result<Vec<Cost>> {
    let cost = |name| {
        let caller = Caller::new(name)?;
        let memory = memory(bench, &caller, kind)?;
        Ok(Cost { name, caller, memory, times: Vec::new() })
    };
    Caller::names().map(cost).collect()
}

fn find(costs: &[Cost], contender: Contender) -> Result<&Cost> {
    costs.iter().find(|cost| cost.name == contender.name()).ok_or("a contender is missing".into())
}

/// What is added to the bare chain.
fn added(costs: &[Cost], contender: Contender) -> Result<Memory> {
    Ok(find(costs, contender)?.memory - find(costs, Contender::Bare)?.memory)
}

/// The targets of memory, as ratios to reqwest-retry in the same run: most allocations more than it, most of
/// its bytes.
fn gate(kind: Kind, costs: &[Cost]) -> Result<bool> {
    let (peer, mut holds) = (added(costs, Contender::ReqwestRetry)?, true);
    let mut check = |contender: Contender, allocations: usize, share: f64| -> Result<()> {
        let ours = added(costs, contender)?;
        let of_bytes = ours.bytes as f64 / peer.bytes as f64;
        let few = ours.allocations <= allocations;
        let small = of_bytes <= share;
        holds &= few && small;
        let (who, kind) = (contender.name(), kind.name());
        let [most, measured] =
            [allocations, ours.allocations].map(|it| format!("{it} : {}", peer.allocations));
        let most = format!("at most {most}");
        targets::print(
            &format!("{who}: allocations added to a {kind}, to reqwest-retry's"),
            &most,
            &measured,
            few,
        );
        let (most, measured) = (format!("at most {share:.2}"), format!("{of_bytes:.2}"));
        targets::print(
            &format!("{who}: bytes added to a {kind}, to reqwest-retry's"),
            &most,
            &measured,
            small,
        );
        Ok(())
    };
    match kind {
        Kind::Get => check(Contender::Ours, 5, 0.5)?,
        Kind::Post(_) => {
            check(Contender::OursIdempotent, 7, 0.7)?;
            // An unmarked POST can't be sent again.
            check(Contender::Ours, 1, 0.4)?;
        }
    }
    check(Contender::OursNever, 1, 0.4)?;
    Ok(holds)
}

fn report(kind: Kind, costs: &[Cost], calls: usize) -> Result<()> {
    println!("\n### {}\n", kind.name());
    println!(
        "| | allocations | bytes | ns | added: allocations | bytes | ns | bytes to reqwest-retry | ns to reqwest-retry |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let bare = find(costs, Contender::Bare)?;
    let nanos = |cost: &Cost| {
        let per_call = |time: &Duration| time.as_nanos() as f64 / calls as f64;
        median(cost.times.iter().map(per_call))
    };
    let more = |cost: &Cost| {
        let pairs = cost.times.iter().zip(&bare.times);
        let per_call = |(time, bare): (&Duration, &Duration)| {
            (time.as_nanos() as f64 - bare.as_nanos() as f64) / calls as f64
        };
        median(pairs.map(per_call))
    };
    let peer = find(costs, Contender::ReqwestRetry)?;
    let (peers_bytes, peers_time) = (peer.memory - bare.memory, more(peer));
    for cost in costs {
        let added = cost.memory - bare.memory;
        println!(
            "| {} | {} | {} | {:.0} | {} | {} | {:.0} | {:.2} | {:.2} |",
            cost.name,
            cost.memory.allocations,
            cost.memory.bytes,
            nanos(cost),
            added.allocations,
            added.bytes,
            more(cost),
            added.bytes as f64 / peers_bytes.bytes as f64,
            more(cost) / peers_time,
        );
    }
    Ok(())
}

fn measure(bench: &Bench, rounds: usize, calls: usize) -> Result<()> {
    println!("{rounds} rounds of {calls} calls; times are medians.");
    for kind in Kind::ALL {
        let mut costs = costs(bench, kind)?;
        for round in 0..rounds {
            for turn in 0..costs.len() {
                let which = (round + turn) % costs.len();
                if let Some(cost) = costs.get_mut(which) {
                    cost.times.push(bench.run(&cost.caller, kind, calls)?.1);
                }
            }
        }
        report(kind, &costs, calls)?;
        println!();
        gate(kind, &costs)?;
    }
    Ok(())
}

fn make_calls(bench: &Bench, contender: &str, kind: &str, calls: usize) -> Result<()> {
    let kind = Kind::ALL.into_iter().find(|it| it.name() == kind);
    bench.run(&Caller::new(contender)?, kind.ok_or("no such kind")?, calls)?;
    Ok(())
}

fn main() -> Result<ExitCode> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let bench = Bench::new()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--gate"] => {
            let mut holds = true;
            for kind in Kind::ALL {
                holds &= gate(kind, &costs(&bench, kind)?)?;
            }
            return Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        ["--loop", contender, kind, calls] => {
            make_calls(&bench, contender, kind, calls.parse()?)?;
        }
        [] => measure(&bench, 101, 2_000)?,
        [rounds, calls] => measure(&bench, rounds.parse()?, calls.parse()?)?,
        _ => return Err("cost [--gate | --loop CONTENDER KIND CALLS | ROUNDS CALLS]".into()),
    }
    Ok(ExitCode::SUCCESS)
}
