//! What the tests in a browser ask: a server on loopback that answers as it is told, and says what it was sent. They
//! come from a page of another origin, so all of it is by CORS.
//!
//! `/{name}?{replies}` is answered with the replies in their order, the last one again and again. They are parted by
//! `~`, and each is a word with options:
//!
//! | reply | what happens |
//! |---|---|
//! | a status | the response, with the body `hello` |
//! | `;retry-after=…` | … with the field, `_` for a space |
//! | `;hidden` | … which CORS does not show |
//! | `;no-cors` | … all of which CORS hides |
//! | `;cut` | … whose body is cut |
//! | `;long` | … whose body is 100,000 bytes |
//! | `;max-age` | … that a cache may keep |
//! | `close` | the request is read, and the connection closed |
//! | `hang` | there is no answer, for ten seconds |
//!
//! `/log/{name}` has a line for each request that came, a preflight not counted: its method, when it came (in
//! milliseconds after the first), its idempotency key, its body. A hanging one that is given up adds `gone`.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

fn main() -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("http://{}", listener.local_addr()?);
    let log = Arc::new(Log::default());
    for stream in listener.incoming() {
        let (stream, log) = (stream?, Arc::clone(&log));
        // One that breaks is the browser's affair: the log tells what came.
        thread::spawn(move || serve(&stream, &log).ok());
    }
    Ok(())
}

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(10);

fn serve(mut stream: &TcpStream, log: &Log) -> io::Result<()> {
    stream.set_read_timeout(Some(6 * LONG))?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reader)? {
        if request.method == "OPTIONS" {
            stream.write_all(PREFLIGHT.as_bytes())?;
            continue;
        }
        let (name, replies) = request.target.split_once('?').unwrap_or((&request.target, "200"));
        if let Some(name) = name.strip_prefix("/log") {
            stream.write_all(response("200", &[], &log.of(name)).as_bytes())?;
            continue;
        }
        let number = log.came(name, &request);
        let replies: Vec<_> = replies.split('~').collect();
        let mut words = replies[number.min(replies.len() - 1)].split(';');
        match words.next().unwrap_or_default() {
            "close" => return Ok(()),
            "hang" => {
                stream.set_read_timeout(Some(LONG))?;
                if matches!(reader.read(&mut [0]), Ok(0)) {
                    log.gone(name);
                }
                return Ok(());
            }
            status => {
                let options: Vec<_> = words.collect();
                stream.write_all(response(status, &options, "hello").as_bytes())?;
                if options.contains(&"cut") {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

const PREFLIGHT: &str = "HTTP/1.1 204 No Content\r\n\
    access-control-allow-origin: *\r\n\
    access-control-allow-methods: *\r\n\
    access-control-allow-headers: *\r\n\r\n";

fn response(status: &str, options: &[&str], body: &str) -> String {
    let cache = if options.contains(&"max-age") { "max-age=60" } else { "no-store" };
    let mut head = format!("HTTP/1.1 {status} As Told\r\ncache-control: {cache}\r\n");
    if !options.contains(&"no-cors") {
        head += "access-control-allow-origin: *\r\n";
    }
    if !options.contains(&"hidden") {
        head += "access-control-expose-headers: retry-after\r\n";
    }
    for option in options {
        if let Some(value) = option.strip_prefix("retry-after=") {
            head += &format!("retry-after: {}\r\n", value.replace('_', " "));
        }
    }
    let body = if options.contains(&"long") { &"long ".repeat(20_000) } else { body };
    let length = if options.contains(&"cut") { body.len() + 1 } else { body.len() };
    format!("{head}content-length: {length}\r\n\r\n{body}")
}

struct Request {
    method: String,
    target: String,
    key: String,
    body: String,
}

impl Request {
    fn read(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Self>> {
        let Some(first) = line(reader)? else { return Ok(None) };
        let mut words = first.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (mut key, mut length) = (String::from("-"), 0);
        while let Some(field) = line(reader)?.filter(|line| !line.is_empty()) {
            match field.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim())) {
                Some((name, value)) if name == "idempotency-key" => key = value.to_owned(),
                Some((name, value)) if name == "content-length" => {
                    length = value.parse().map_err(io::Error::other)?;
                }
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        // A line of the log.
        let body = String::from_utf8_lossy(&body).replace(['\r', '\n'], " ");
        Ok(Some(Self { method, target, key, body }))
    }
}

fn line(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<String>> {
    let mut line = String::new();
    Ok((reader.read_line(&mut line)? > 0).then(|| line.trim_end().to_owned()))
}

/// By name, what came.
#[derive(Default)]
struct Log(Mutex<HashMap<String, Entry>>);

#[derive(Default)]
struct Entry {
    first: Option<Instant>,
    requests: usize,
    lines: Vec<String>,
}

impl Log {
    fn with<T>(&self, name: &str, work: impl FnOnce(&mut Entry) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        work(all.entry(name.to_owned()).or_default())
    }

    /// Gives how many requests came before.
    fn came(&self, name: &str, request: &Request) -> usize {
        self.with(name, |entry| {
            let at = entry.first.get_or_insert_with(Instant::now).elapsed().as_millis();
            let Request { method, key, body, .. } = request;
            entry.lines.push(format!("{method} {at} {key} {body}"));
            entry.requests += 1;
            entry.requests - 1
        })
    }

    fn gone(&self, name: &str) {
        self.with(name, |entry| entry.lines.push("gone".to_owned()));
    }

    fn of(&self, name: &str) -> String {
        self.with(name, |entry| entry.lines.join("\n"))
    }
}
