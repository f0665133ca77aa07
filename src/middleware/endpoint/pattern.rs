//! What an endpoint's hosts and paths match.

use std::fmt;

use reqwest::Url;

/// One host, or all below a domain; at one port or at any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPattern {
    /// As a URL has it: in lower case, an international name in its ASCII form. Without a final dot.
    host: String,
    is_suffix: bool,
    port: Option<u16>,
}

impl HostPattern {
    /// Or the rule that it breaks.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const RULE: &str = "it must be a host such as api.test, api.test:8080 or *.api.test, \
            without a scheme or a path";
        let (rest, is_suffix) = match text.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        // Not by the URL, which takes the port of its scheme for none.
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port
            .map(|port| Some(port).filter(|port| is_number(port))?.parse().ok())
            .map_or(Ok(None), |port| port.map(Some).ok_or(RULE))?;
        let is_foreign = |c: char| c.is_whitespace() || c.is_control() || r"*/?#@\,;".contains(c);
        let is_address = host.starts_with('[') && host.ends_with(']');
        if host.contains(is_foreign) || (host.contains(':') && !is_address) {
            return Err(RULE);
        }
        let url = Url::parse(&format!("http://{host}/")).map_err(|_| RULE)?;
        if is_suffix && url.domain().is_none() {
            return Err("only a domain has names below it");
        }
        let host = without_final_dot(url.host_str().ok_or(RULE)?);
        // Percent-encoded or of another width, it may come to what is foreign only now.
        if host.contains(is_foreign) || host.split('.').any(str::is_empty) {
            return Err(RULE);
        }
        Ok(Self { host: host.to_owned(), is_suffix, port })
    }

    pub(super) fn matches(&self, url: &Url) -> bool {
        let Some(host) = url.host_str().map(without_final_dot) else { return false };
        let is_host = if self.is_suffix {
            let below = host.strip_suffix(&*self.host).and_then(|rest| rest.strip_suffix('.'));
            below.is_some_and(|labels| !labels.is_empty())
        } else {
            host == self.host
        };
        is_host && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, is_suffix, port } = self;
        write!(f, "{}{host}", if *is_suffix { "*." } else { "" })?;
        port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// `api.test.` is `api.test`.
fn without_final_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

/// A path and all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathPrefix {
    /// As a URL has it, without a final slash.
    path: String,
}

impl PathPrefix {
    /// Or the rule that it breaks.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if !text.starts_with('/') {
            return Err("it must begin with a slash");
        }
        if text.contains(['?', '#']) {
            return Err("it must be a path alone: queries are not looked at");
        }
        if text.contains(['*', '{', '}']) {
            return Err("it is a prefix of whole segments already: it has no wildcards");
        }
        if text.trim() != text || text.contains(char::is_control) {
            return Err("it must not have space around it, which a URL never has");
        }
        let mut url = Url::parse("http://h/").map_err(|_| "it must be a path")?;
        url.set_path(text);
        let path = url.path().trim_end_matches('/');
        // A backslash comes to a slash.
        if path.contains(",/") {
            return Err("it must be one path: several are several settings");
        }
        if path.is_empty() && text != "/" {
            return Err("it comes to /, which is every path");
        }
        Ok(Self { path: path.to_owned() })
    }

    pub(super) fn matches(&self, url: &Url) -> bool {
        let below = url.path().strip_prefix(&*self.path);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.path.is_empty() { "/" } else { &self.path })
    }
}
