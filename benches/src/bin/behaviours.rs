//! What each contender does where a server fails: which requests it sends again, when, and what its caller gets.
//! Prints Markdown tables, the middle of `docs/COMPARE.md`; everything is on loopback.
//!
//! `cargo run --release --manifest-path benches/Cargo.toml --bin behaviours -- [--check FILE | --gate FILE | --write FILE]`
//!
//! - Everybody makes three attempts at most, without jitter. A cell is what the server saw of one call, or what
//!   the caller got; each has a server and a client of its own, and all are measured at the same time.
//! - Nothing is a matter of milliseconds: what a server asks for is seconds, what nobody asks for is 10 ms.
//! - With `--check` the exit code is 1 where the file says something else, three times: a machine that stands still
//!   for seconds can be what differs. `--gate` does so for the column of this crate alone: what a peer does is for its
//!   next version to change. `--write` mends the file.

use std::process::ExitCode;

use futures_util::future::{try_join, try_join_all};
use peers::behaviours::Result;
use peers::behaviours::contender::Contender;
use peers::behaviours::rows::{self, Group};
use tokio::runtime::Builder;

const START: &str = "<!-- What the program prints starts here. -->\n";
const END: &str = "<!-- It ends here. -->\n";

/// Before a file is wrong.
const MEASUREMENTS: usize = 3;

/// A line of a table.
fn line<C: AsRef<str>>(name: &str, cells: impl IntoIterator<Item = C>) -> String {
    let mut line = format!("| {name} |");
    for cell in cells {
        line.push(' ');
        line += cell.as_ref();
        line += " |";
    }
    line + "\n"
}

async fn table(group: &Group) -> Result<String> {
    let mut table = format!("### {}\n\n", group.title);
    table += &line("", Contender::ALL.map(Contender::name));
    table += &line("---", Contender::ALL.map(|_| "---")).replace(' ', "");
    let cells = try_join_all(group.rows.iter().map(async |row| {
        let cells = try_join_all(Contender::ALL.map(|contender| row.cell(contender))).await;
        cells.map_err(|error| format!("{}: {error}", row.name()))
    }))
    .await?;
    for (row, cells) in group.rows.iter().zip(cells) {
        table += &line(row.name(), cells);
    }
    Ok(table)
}

async fn tables() -> Result<String> {
    // Alone, since budgets depend on the time that it takes.
    let mut outage = Vec::new();
    for contender in Contender::ALL {
        outage.push(rows::outage(contender).await?);
    }
    let held = async { try_join_all(Contender::ALL.map(rows::second_request)).await };
    let groups = rows::all();
    let tables = try_join_all(groups.iter().map(table));
    let (tables, held) = try_join(tables, held).await?;
    let more = [
        ("a 503 asks for 3 s, the next request comes 0.5 s later, with a `Cooldown`", held),
        ("2,000 requests in an outage: sends for each", outage),
    ];
    let more = more.map(|(name, cells)| line(name, cells)).concat();
    Ok(tables.join("\n") + &more)
}

/// What comes before the tables, the tables, and what comes after.
fn parts(text: &str) -> Result<[&str; 3]> {
    let (before, rest) = text.split_once(START).ok_or("there is no start of the tables")?;
    let (tables, after) = rest.split_once(END).ok_or("there is no end of the tables")?;
    Ok([before, tables, after])
}

/// Whether it says the same; prints what it does not.
fn is_same(written: &str, measured: &str) -> bool {
    for line in measured.lines().filter(|line| !written.contains(line)) {
        println!("measured: {line}");
    }
    for line in written.lines().filter(|line| !measured.contains(line)) {
        println!("written:  {line}");
    }
    written == measured
}

/// Rows with the last column alone, that of this crate: those of the peers are for their next versions to change.
fn ours(tables: &str) -> Vec<(&str, &str)> {
    tables
        .lines()
        .filter_map(|row| Some((row.split(" | ").next()?, row.rsplit(" | ").next()?)))
        .collect()
}

fn main() -> Result<ExitCode> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let arguments = arguments.iter().map(String::as_str).collect::<Vec<_>>();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let tables = || Result::Ok(format!("\n{}\n", runtime.block_on(tables())?));
    match arguments[..] {
        [] => print!("{}", tables()?),
        [how @ ("--check" | "--gate"), file] => {
            let text = std::fs::read_to_string(file)?;
            let [_, written, _] = parts(&text)?;
            for _ in 0..MEASUREMENTS {
                let measured = tables()?;
                let is_same = is_same(written, &measured);
                if is_same || (how == "--gate" && ours(written) == ours(&measured)) {
                    let whose = if is_same { "" } else { " of this crate" };
                    println!("{file} says what was measured{whose}");
                    return Ok(ExitCode::SUCCESS);
                }
            }
            return Ok(ExitCode::FAILURE);
        }
        ["--write", file] => {
            let text = std::fs::read_to_string(file)?;
            let [before, _, after] = parts(&text)?;
            std::fs::write(file, [before, START, &tables()?, END, after].concat())?;
        }
        _ => return Err("behaviours [--check FILE | --gate FILE | --write FILE]".into()),
    }
    Ok(ExitCode::SUCCESS)
}
