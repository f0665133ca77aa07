//! Endpoints and requests of few words, so that they often match, and a slow reading of both that shares
//! nothing with the crate's: hosts are lists of labels, paths are lists of segments, and what a URL makes
//! of each word stands next to it.

use std::fmt::{self, Write as _};

use http::{HeaderValue, Method};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use reqwest::Request;
use reqwest_typed_retry::{Endpoint, EndpointBuilder};

/// A word as it is written, and as a URL has it.
type Word = (&'static str, &'static str);

const LABELS: [Word; 6] =
    [("a", "a"), ("a", "a"), ("b", "b"), ("A", "a"), ("ü", "xn--tda"), ("XN--tda", "xn--tda")];

/// Hosts that have no labels.
const ADDRESSES: [Word; 5] = [
    ("127.0.0.1", "127.0.0.1"),
    ("127.1", "127.0.0.1"),
    ("[::1]", "[::1]"),
    ("[0:0::0001]", "[::1]"),
    ("[::2]", "[::2]"),
];

const SEGMENTS: [Word; 11] = [
    ("a", "a"),
    ("a", "a"),
    ("b", "b"),
    ("A", "A"),
    ("aa", "aa"),
    ("", ""),
    ("%61", "%61"),
    ("a%2Fb", "a%2Fb"),
    ("ü", "%C3%BC"),
    ("%C3%BC", "%C3%BC"),
    ("%c3%bc", "%c3%bc"),
];

/// Those of a path, dots included.
const STEPS: [Word; 4] = [("..", ".."), (".", "."), ("%2e", "."), (".%2E", "..")];

const PORTS: [u16; 3] = [80, 443, 8080];

/// Names of methods are case-sensitive: the last two are two.
const METHODS: [&str; 4] = ["GET", "POST", "PURGE", "purge"];

#[derive(Clone, Debug)]
pub(crate) enum Name {
    Labels { labels: Vec<Word>, final_dot: bool },
    Address(Word),
}

impl Name {
    fn write(&self, text: &mut String) {
        match self {
            Self::Labels { labels, final_dot } => {
                let labels: Vec<_> = labels.iter().map(|(written, _)| *written).collect();
                *text += &labels.join(".");
                *text += if *final_dot { "." } else { "" };
            }
            Self::Address((written, _)) => *text += written,
        }
    }

    /// One label, if it is an address.
    fn labels(&self) -> Vec<&'static str> {
        match self {
            Self::Labels { labels, .. } => labels.iter().map(|(_, label)| *label).collect(),
            Self::Address((_, address)) => vec![address],
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct HostSpec {
    is_suffix: bool,
    name: Name,
    port: Option<u16>,
}

impl HostSpec {
    fn text(&self) -> String {
        let mut text = if self.is_suffix { "*.".to_owned() } else { String::new() };
        self.name.write(&mut text);
        if let Some(port) = self.port {
            write!(text, ":{port}").unwrap();
        }
        text
    }

    fn holds(&self, request: &RequestSpec) -> bool {
        let (ours, theirs) = (self.name.labels(), request.name.labels());
        let is_host = if self.is_suffix {
            theirs.len() > ours.len() && theirs[theirs.len() - ours.len()..] == ours
        } else {
            theirs == ours
        };
        is_host && self.port.is_none_or(|port| port == request.port_used())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PathSpec(Vec<Word>);

impl PathSpec {
    fn text(&self) -> String {
        let segments: Vec<_> = self.0.iter().map(|(written, _)| *written).collect();
        format!("/{}", segments.join("/"))
    }

    /// As a URL has them: without those that only lead back.
    fn segments(&self) -> Vec<&'static str> {
        let mut segments = Vec::new();
        for (at, (_, segment)) in self.0.iter().enumerate() {
            let is_last = at + 1 == self.0.len();
            match *segment {
                ".." => {
                    segments.pop();
                    segments.extend(is_last.then_some(""));
                }
                "." => segments.extend(is_last.then_some("")),
                segment => segments.push(segment),
            }
        }
        segments
    }

    fn holds(&self, request: &RequestSpec) -> bool {
        let (mut ours, theirs) = (self.segments(), request.path.segments());
        while ours.last() == Some(&"") {
            ours.pop();
        }
        theirs.len() >= ours.len() && theirs[..ours.len()] == ours
    }
}

#[derive(Clone, Debug)]
pub(crate) struct EndpointSpec {
    methods: Vec<&'static str>,
    hosts: Vec<HostSpec>,
    paths: Vec<PathSpec>,
    /// Only requests with this field.
    wants_flag: bool,
}

const FLAG: &str = "x-flag";

impl EndpointSpec {
    pub(crate) fn builder(&self, name: &str) -> EndpointBuilder {
        let mut builder = Endpoint::named(name);
        for method in &self.methods {
            builder = builder.method(Method::from_bytes(method.as_bytes()).unwrap());
        }
        for host in &self.hosts {
            builder = builder.host(host.text());
        }
        for path in &self.paths {
            builder = builder.path(path.text());
        }
        if self.wants_flag {
            builder = builder.when(|request| request.headers().contains_key(FLAG));
        }
        builder
    }

    /// What the documentation says, word by word.
    pub(crate) fn holds(&self, request: &RequestSpec) -> bool {
        let method = self.methods.is_empty() || self.methods.contains(&request.method);
        let host = self.hosts.is_empty() || self.hosts.iter().any(|host| host.holds(request));
        let path = self.paths.is_empty() || self.paths.iter().any(|path| path.holds(request));
        method && host && path && (!self.wants_flag || request.has_flag)
    }
}

#[derive(Clone)]
pub(crate) struct RequestSpec {
    method: &'static str,
    scheme: &'static str,
    name: Name,
    port: Option<u16>,
    path: PathSpec,
    query: &'static str,
    has_flag: bool,
}

impl RequestSpec {
    pub(crate) fn url(&self) -> String {
        let mut url = format!("{}://", self.scheme);
        self.name.write(&mut url);
        if let Some(port) = self.port {
            write!(url, ":{port}").unwrap();
        }
        url + &self.path.text() + self.query
    }

    fn port_used(&self) -> u16 {
        self.port.unwrap_or(if self.scheme == "https" { 443 } else { 80 })
    }

    pub(crate) fn build(&self) -> Request {
        let method = Method::from_bytes(self.method.as_bytes()).unwrap();
        let mut request = Request::new(method, self.url().parse().unwrap());
        if self.has_flag {
            request.headers_mut().insert(FLAG, HeaderValue::from_static("yes"));
        }
        request
    }
}

impl fmt::Debug for RequestSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} flag: {}", self.method, self.url(), self.has_flag)
    }
}

// Strategies

fn names() -> impl Strategy<Value = Name> {
    let labels = (vec(select(&LABELS[..]), 1..4), prop::bool::weighted(0.2))
        .prop_map(|(labels, final_dot)| Name::Labels { labels, final_dot });
    prop_oneof![5 => labels, 1 => select(&ADDRESSES[..]).prop_map(Name::Address)]
}

fn ports() -> impl Strategy<Value = Option<u16>> {
    option::weighted(0.3, select(&PORTS[..]))
}

fn hosts() -> impl Strategy<Value = HostSpec> {
    let of = |is_suffix| move |(name, port)| HostSpec { is_suffix, name, port };
    let labels = vec(select(&LABELS[..]), 1..3);
    let domain =
        (labels, any::<bool>()).prop_map(|(labels, final_dot)| Name::Labels { labels, final_dot });
    prop_oneof![
        2 => (names(), ports()).prop_map(of(false)),
        3 => (domain, ports()).prop_map(of(true)),
    ]
}

fn paths(most: usize) -> impl Strategy<Value = PathSpec> {
    let segment = prop_oneof![9 => select(&SEGMENTS[..]), 1 => select(&STEPS[..])];
    vec(segment, 1..=most).prop_map(PathSpec)
}

pub(crate) fn endpoints() -> impl Strategy<Value = EndpointSpec> {
    let methods = prop_oneof![2 => Just(vec![]), 1 => vec(select(&METHODS[..]), 1..4)];
    let hosts = prop_oneof![1 => Just(vec![]), 2 => vec(hosts(), 1..4)];
    // What only leads back to every path is refused.
    let paths = paths(2).prop_filter("a path", |path| {
        path.text() == "/" || path.segments().iter().any(|segment| !segment.is_empty())
    });
    let paths = prop_oneof![1 => Just(PathSpec(vec![("", "")])), 6 => paths];
    let paths = prop_oneof![1 => Just(vec![]), 2 => vec(paths, 1..4)];
    let all = (methods, hosts, paths, prop::bool::weighted(0.2));
    all.prop_map(|(methods, hosts, paths, wants_flag)| EndpointSpec {
        methods,
        hosts,
        paths,
        wants_flag,
    })
    .prop_filter("a condition", |spec| {
        spec.wants_flag
            || !(spec.methods.is_empty() && spec.hosts.is_empty() && spec.paths.is_empty())
    })
}

pub(crate) fn requests() -> impl Strategy<Value = RequestSpec> {
    let method = select(&METHODS[..]);
    let scheme = select(&["http", "https"][..]);
    let query = select(&["", "?", "?/a", "#/a"][..]);
    let all = (method, scheme, names(), ports(), paths(3), query, any::<bool>());
    all.prop_map(|(method, scheme, name, port, path, query, has_flag)| RequestSpec {
        method,
        scheme,
        name,
        port,
        path,
        query,
        has_flag,
    })
}
