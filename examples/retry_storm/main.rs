//! A retry storm, policy by policy.
//!
//! What it shows: 10,000 clients, each a real client with this crate's middleware, send to a modelled server
//! (`storm/server.rs`) that is sick for half a minute. Time is tokio's paused time, and all randomness comes from one
//! seed: the same seed gives the same numbers and the same picture. It prints a table, and draws the load over time
//! as an SVG, into the directory for temporary files or to a path of yours.
//!
//! Run it: `cargo run --example retry_storm`. It ends by itself in about 40 seconds, with `--release` in 2; the
//! exit code is 0 only if all went as `docs/fleets.md` says. Other ways to run it:
//!
//! ```sh
//! cargo run --release --example retry_storm -- docs/retry-storm.svg
//! cargo run --release --example retry_storm -- --seed 7 --refusing picture.svg
//! cargo run --release --example retry_storm -- --fleets
//! ```
//!
//! - By default the server works at a tenth of its capacity in the outage: what is queued comes too late, the rest is
//!   shed. With `--refusing` it answers 503 to all at once.
//! - `--fleets` prints how far budgets bound fleets of 100 to 10,000 clients; it takes minutes.
//!
//! Some of what it prints, with most of the columns left out:
//!
//! ```text
//! | policy                          | peak load | extra sends, outage |
//! |---------------------------------|----------:|--------------------:|
//! | no retries                      |      0.82 |                 0 % |
//! | default, without budget         |      2.48 |               150 % |
//! | default, a budget a process     |      1.44 |                 9 % |
//! ```

mod storm;

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};

use self::storm::claims;
use self::storm::contenders::Kind;
use self::storm::fleets;
use self::storm::outcome::Outcome;
use self::storm::world::{Sickness, World};

struct Arguments {
    seed: u64,
    refusing: bool,
    fleets: bool,
    picture: PathBuf,
}

impl Arguments {
    fn read() -> anyhow::Result<Self> {
        let mut arguments = Self {
            seed: 1,
            refusing: false,
            fleets: false,
            picture: env::temp_dir().join("retry-storm.svg"),
        };
        let mut given = env::args().skip(1);
        while let Some(argument) = given.next() {
            match argument.as_str() {
                "--seed" => {
                    arguments.seed = given.next().context("--seed needs a number")?.parse()?
                }
                "--refusing" => arguments.refusing = true,
                "--fleets" => arguments.fleets = true,
                option if option.starts_with('-') => bail!("there is no option {option}"),
                path => arguments.picture = path.into(),
            }
        }
        Ok(arguments)
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::read()?;
    if arguments.fleets {
        println!("{}", fleets::table(&fleets::cases(), arguments.seed)?);
        return Ok(());
    }
    let mut world = World::new(arguments.seed);
    if arguments.refusing {
        world.sickness = Sickness::Refusing(1.0);
    }
    println!("{world}\n");
    let outcome = Outcome::of(&world, &Kind::ALL)?;
    println!("{}", outcome.table());
    fs::write(&arguments.picture, outcome.chart(&world)?)?;
    println!("load over time: {}", arguments.picture.display());
    let broken = claims::broken(&world, &outcome)?;
    ensure!(broken.is_empty(), "it did not go as documented:\n{}", broken.join("\n"));
    println!("It went as documented.");
    Ok(())
}
